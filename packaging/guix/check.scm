;;; Reads the Guix recipe and evaluates what does not need Guix: the list of crates of Cargo.lock.
;;;
;;;   guile packaging/guix/check.scm packaging/guix/guix.scm

(use-modules (ice-9 match) (ice-9 rdelim) (ice-9 regex) (srfi srfi-1) (rnrs bytevectors))

;; Forms of Guix: #$ and #~ are read as it reads them.
(read-hash-extend #\~ (lambda (_ port) (list 'gexp (read port))))
(read-hash-extend #\$ (lambda (_ port) (list 'ungexp (read port))))

(define forms
  (call-with-input-file (second (command-line))
    (lambda (port)
      (let loop ((form (read port)) (forms '()))
        (if (eof-object? form) (reverse forms) (loop (read port) (cons form forms)))))))

(define lock-entries
  (let ((form (find (match-lambda
                      (('define ('lock-entries . _) . _) #t)
                      (_ #f))
                    forms)))
    (eval `(begin ,form lock-entries) (current-module))))

(define crates (lock-entries "Cargo.lock"))
(define checksums
  (call-with-input-file "Cargo.lock"
    (lambda (port)
      (length (filter (lambda (line) (string-prefix? "checksum = " line))
                      (string-split (read-string port) #\newline))))))

(unless (and (= (length crates) checksums)
             (every (match-lambda
                      ((name version checksum)
                       (and (string? name) (string? version) (= 64 (string-length checksum)))))
                    crates))
  (error "the crates of Cargo.lock" (length crates) checksums))

;; The package's version is Cargo.toml's.
(define version
  (match:substring
   (string-match "\nversion = \"([^\"]*)\"" (call-with-input-file "Cargo.toml" read-string)) 1))
(unless (member `(version ,version)
                (append-map (match-lambda
                              (('define 'becalm ('package . fields)) fields)
                              (_ '()))
                            forms))
  (error "the version is not Cargo.toml's" version))
