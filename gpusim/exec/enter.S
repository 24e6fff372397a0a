/* What every library under `gpusim exec` begins with: its functions, each made by the macro `stub` with the number that
   stands for it (libraries.py), jump to `gpusim_enter`, which puts the registers that pass arguments into memory for
   `gpusim_call` (client.c). */
.text
#if defined(__x86_64__)
gpusim_enter:
    pushq %rbp
    movq %rsp, %rbp
    subq $48, %rsp
    movq %rdi, (%rsp)
    movq %rsi, 8(%rsp)
    movq %rdx, 16(%rsp)
    movq %rcx, 24(%rsp)
    movq %r8, 32(%rsp)
    movq %r9, 40(%rsp)
    movl %r11d, %edi
    movq %rsp, %rsi
    leaq 16(%rbp), %rdx
    call gpusim_call@PLT
    leave
    ret
.macro stub name number
.globl \name
.type \name, @function
\name:
    movl $\number, %r11d
    jmp gpusim_enter
.endm
#elif defined(__aarch64__)
gpusim_enter:
    stp x29, x30, [sp, #-80]!
    mov x29, sp
    stp x0, x1, [sp, #16]
    stp x2, x3, [sp, #32]
    stp x4, x5, [sp, #48]
    stp x6, x7, [sp, #64]
    mov w0, w16
    add x1, sp, #16
    add x2, sp, #80
    bl gpusim_call
    ldp x29, x30, [sp], #80
    ret
.macro stub name number
.globl \name
.type \name, %function
\name:
    movz w16, #(\number & 0xffff)
    movk w16, #(\number >> 16), lsl #16
    b gpusim_enter
.endm
#endif
.section .note.GNU-stack,"",%progbits
.text
