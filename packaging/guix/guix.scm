;;; becalm for Guix, from this checkout:
;;;
;;;   guix build -f packaging/guix/guix.scm
;;;   guix package -f packaging/guix/guix.scm
;;;
;;; The crates are those of Cargo.lock, with its checksums.

(use-modules (guix packages)
             (guix gexp)
             (guix utils)
             (guix download)
             (guix base16)
             (guix build-system cargo)
             ((guix licenses) #:prefix license:)
             (gnu packages llvm)
             (gnu packages rust)
             (ice-9 match)
             (ice-9 rdelim)
             (ice-9 regex)
             (srfi srfi-1))

(define %checkout
  (string-append (current-source-directory) "/../.."))

(define (lock-entries file)
  "Return the packages of the Cargo.lock FILE that come from a registry, as lists of name, version
and SHA-256 in hexadecimal."
  (define (fields block)
    (map (lambda (key)
           (and=> (string-match (string-append "(^|\n)" key " = \"([^\"]*)\"") block)
                  (lambda (found) (match:substring found 2))))
         '("name" "version" "checksum")))
  (define blocks
    (let ((text (call-with-input-file file read-string)))
      (let loop ((at 0) (blocks '()))
        (match (string-contains text "[[package]]" at)
          (#f (reverse blocks))
          (start
           (let ((end (or (string-contains text "[[package]]" (+ start 1))
                          (string-length text))))
             (loop end (cons (substring text start end) blocks))))))))
  (filter last (map fields blocks)))

(define crate-origin
  (match-lambda
    ((name version checksum)
     (origin
       (method url-fetch)
       (uri (crate-uri name version))
       (file-name (string-append "rust-" name "-" version ".tar.gz"))
       (hash (content-hash (base16-string->bytevector checksum) sha256))))))

(define becalm
  (package
    (name "becalm")
    (version "0.1.0")
    (source (local-file %checkout "becalm-checkout"
                        #:recursive? #t
                        #:select? (lambda (file stat)
                                    (not (member (basename file) '("target" "dist" ".git"))))))
    (build-system cargo-build-system)
    (arguments
     (list
      #:rust rust-1.88
      #:install-source? #f
      ;; The tests start programs by the machine's loader, which a build does not have.
      #:tests? #f
      #:cargo-install-paths ''("crates/cli")
      #:phases
      #~(modify-phases %standard-phases
          (add-before 'build 'choose-compilers
            (lambda _
              ;; Audit modules of every machine, for stores of others.
              (setenv "CC" #$(cc-for-target))
              (setenv "BECALM_MODULES" "all")))
          (add-after 'install 'install-manual
            (lambda _
              (let ((becalm (string-append #$output "/bin/becalm"))
                    (man (string-append #$output "/share/man/man1"))
                    (completions
                     '(("bash" . "/share/bash-completion/completions/becalm")
                       ("zsh" . "/share/zsh/site-functions/_becalm")
                       ("fish" . "/share/fish/vendor_completions.d/becalm.fish"))))
                (mkdir-p man)
                (invoke becalm "generate" "man" man)
                (for-each
                 (lambda (pair)
                   (let ((file (string-append #$output (cdr pair))))
                     (mkdir-p (dirname file))
                     (with-output-to-file file
                       (lambda ()
                         (invoke becalm "generate" "completions" (car pair))))))
                 completions)))))))
    (native-inputs (list clang lld))
    (inputs (map crate-origin (lock-entries (string-append %checkout "/Cargo.lock"))))
    (supported-systems (filter (lambda (system) (string-suffix? "-linux" system))
                               %supported-systems))
    (home-page #f)
    (synopsis "Start programs without searching for their libraries")
    (description
     "becalm predicts every path that the dynamic loader tries when a program starts, and answers the
search from an index on an unmodified glibc.")
    (license (list license:expat license:asl2.0))))

becalm
