//! What compilers call to copy, fill and compare memory, small: those that come with the compiler
//! are fast for kilobytes at a time and take three of flash. No loop over weights calls them.
//!
//! Names and arguments are those of the run-time ABI for the Arm architecture. Only instructions of
//! Armv6-M are used, and only aligned words.

#![allow(unsafe_code)]

use core::arch::global_asm;

// The copies of aligned words are right for overlapping memory too if the target is below the
// source. `r12` is free for all of them, and `r4` is not.
global_asm!(
    ".macro smidgen_function name:vararg",
    ".irp one, \\name",
    ".global \\one",
    ".type \\one, %function",
    ".thumb_func",
    "\\one:",
    ".endr",
    ".endm",
    //
    // (r0: target, r1: source, r2: bytes)
    ".section .text.smidgen_memmove, \"ax\", %progbits",
    "smidgen_function __aeabi_memmove, __aeabi_memmove4, __aeabi_memmove8",
    "cmp r0, r1",
    "bls __aeabi_memcpy",
    "1:",
    "subs r2, #1",
    "blo 2f",
    "ldrb r3, [r1, r2]",
    "strb r3, [r0, r2]",
    "b 1b",
    "2:",
    "bx lr",
    //
    "smidgen_function __aeabi_memcpy",
    "movs r3, r0",
    "orrs r3, r1",
    "lsls r3, #30",
    "bne 3f",
    "smidgen_function __aeabi_memcpy4, __aeabi_memcpy8",
    "b 2f",
    "1:",
    "ldmia r1!, {{r3}}",
    "stmia r0!, {{r3}}",
    "2:",
    "subs r2, #4",
    "bhs 1b",
    "adds r2, #4",
    "3:",
    "adds r0, r2",
    "adds r1, r2",
    "rsbs r2, r2, #0",
    "beq 5f",
    "4:",
    "ldrb r3, [r1, r2]",
    "strb r3, [r0, r2]",
    "adds r2, #1",
    "bne 4b",
    "5:",
    "bx lr",
    //
    // (r0: target, r1: bytes, r2: value)
    ".section .text.smidgen_memset, \"ax\", %progbits",
    "smidgen_function __aeabi_memclr, __aeabi_memclr4, __aeabi_memclr8",
    "movs r2, #0",
    "smidgen_function __aeabi_memset, __aeabi_memset4, __aeabi_memset8",
    "lsls r3, r0, #30",
    "bne 3f",
    "uxtb r2, r2",
    "lsls r3, r2, #8",
    "orrs r2, r3",
    "lsls r3, r2, #16",
    "orrs r2, r3",
    "b 2f",
    "1:",
    "stmia r0!, {{r2}}",
    "2:",
    "subs r1, #4",
    "bhs 1b",
    "adds r1, #4",
    "3:",
    "subs r1, #1",
    "blo 4f",
    "strb r2, [r0, r1]",
    "b 3b",
    "4:",
    "bx lr",
    //
    // (r0, r1: what to compare, r2: bytes) -> r0: its sign, 0 if they are equal
    ".section .text.smidgen_memcmp, \"ax\", %progbits",
    "smidgen_function memcmp, bcmp",
    "push {{r4, lr}}",
    "movs r4, #0",
    "1:",
    "subs r2, #1",
    "blo 2f",
    "ldrb r4, [r0]",
    "ldrb r3, [r1]",
    "adds r0, #1",
    "adds r1, #1",
    "subs r4, r3",
    "beq 1b",
    "2:",
    "movs r0, r4",
    "pop {{r4, pc}}",
    ".purgem smidgen_function",
);
