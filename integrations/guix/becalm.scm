;;; A build phase for Guix that runs 'becalm fix' on what a package installs.
;;;
;;;   (arguments
;;;    (list #:phases
;;;          #~(modify-phases %standard-phases
;;;              (add-after 'strip 'calm calm))))
;;;
;;; The phase runs nothing of the package, so it works in cross builds.

(define-module (becalm)
  #:use-module (srfi srfi-1)
  #:export (calm))

;; CARRIER is the former name of STRATEGY.
(define* (calm #:key outputs (store "/gnu/store") (carrier "farm") (strategy carrier) (flags '())
               #:allow-other-keys)
  "Apply STRATEGY to every output in OUTPUTS, an alist of names and directories.  FLAGS are further
flags of becalm fix.  The phase changes only files of the outputs.  For Guix's own loader, which
reads the cache of the program's package, use \"ldcache\" as STRATEGY and \"--closure\" in FLAGS.
The phase succeeds if the loader still has to search for some needed strings (exit code 1)."
  (define (calm-output directory)
    (let ((status (apply system* "becalm" "fix" "--with" strategy "--store" store
                         (append flags (list directory)))))
      (and (memv (or (status:exit-val status) 128) '(0 1)) #t)))
  (every calm-output (filter file-exists? (map cdr outputs))))
