/* The code of the stubs for x86-64. */

/* The number of the call is above the return address. Below it are the arguments that are in registers, the first
   lowest; al is the number of vector registers that a function with variable arguments receives. */
#define STUB_ENTRY " endbr64\n pushq $number\n jmp becalm_stub\n"
#define STUB_BODY                                                                                  \
  " pushq %rax\n pushq %r9\n pushq %r8\n pushq %rcx\n"                                             \
  " pushq %rdx\n pushq %rsi\n pushq %rdi\n"                                                        \
  " movq %rsp, %rsi\n"                                                                             \
  " movq 56(%rsp), %rdi\n"                                                                         \
  " subq $8, %rsp\n"                                                                               \
  " call becalm_stub_called\n"                                                                     \
  " addq $8, %rsp\n"                                                                               \
  " testq %rax, %rax\n"                                                                            \
  " je 1f\n"                                                                                       \
  " movq %rax, %r11\n"                                                                             \
  " popq %rdi\n popq %rsi\n popq %rdx\n popq %rcx\n"                                               \
  " popq %r8\n popq %r9\n popq %rax\n"                                                             \
  " leaq 8(%rsp), %rsp\n"                                                                          \
  " jmp *%r11\n"                                                                                   \
  "1: popq %rax\n"                                                                                 \
  " addq $56, %rsp\n"                                                                              \
  " ret\n"

/* The size of struct stat. */
#define STAT_SIZE 144
