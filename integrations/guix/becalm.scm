;;; A build phase for Guix: calms what a package installs.
;;;
;;;   (arguments
;;;    (list #:phases
;;;          #~(modify-phases %standard-phases
;;;              (add-after 'strip 'calm calm))))
;;;
;;; Nothing of the package is run, so that cross builds are calmed as well.

(define-module (becalm)
  #:use-module (srfi srfi-1)
  #:export (calm))

(define* (calm #:key outputs (store "/gnu/store") (carrier "farm") (flags '())
               #:allow-other-keys)
  "Calm every output in OUTPUTS, an alist of names and directories, by CARRIER; FLAGS are
further flags of becalm fix.  Only files of the outputs are changed.  For Guix's own loader, which
reads the cache of the program's package, CARRIER is \"ldcache\" and FLAGS has \"--closure\".
Needed strings that stay with the plain search are no failure."
  (define (calm-output directory)
    (let ((status (apply system* "becalm" "fix" "--with" carrier "--store" store
                         (append flags (list directory)))))
      (and (memv (or (status:exit-val status) 128) '(0 1)) #t)))
  (every calm-output (filter file-exists? (map cdr outputs))))
