/* The code of the stubs for AArch64. */

/* No function has arguments in vector registers. A stub leaves by x16, as a PLT entry does. */
#define STUB_ENTRY " hint #34\n mov w16, #number\n b becalm_stub\n"
#define STUB_BODY                                                                                  \
  " stp x29, x30, [sp, #-96]!\n"                                                                   \
  " mov x29, sp\n"                                                                                 \
  " stp x0, x1, [sp, #16]\n"                                                                       \
  " stp x2, x3, [sp, #32]\n"                                                                       \
  " stp x4, x5, [sp, #48]\n"                                                                       \
  " stp x6, x7, [sp, #64]\n"                                                                       \
  " str x8, [sp, #80]\n"                                                                           \
  " mov w0, w16\n"                                                                                 \
  " add x1, sp, #16\n"                                                                             \
  " bl becalm_stub_called\n"                                                                       \
  " mov x16, x0\n"                                                                                 \
  " ldp x0, x1, [sp, #16]\n"                                                                       \
  " ldp x2, x3, [sp, #32]\n"                                                                       \
  " ldp x4, x5, [sp, #48]\n"                                                                       \
  " ldp x6, x7, [sp, #64]\n"                                                                       \
  " ldr x8, [sp, #80]\n"                                                                           \
  " ldp x29, x30, [sp], #96\n"                                                                     \
  " cbz x16, 1f\n"                                                                                 \
  " br x16\n"                                                                                      \
  "1: ret\n"

/* The size of struct stat. */
#define STAT_SIZE 128
