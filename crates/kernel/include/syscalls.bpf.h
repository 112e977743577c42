/* SPDX-License-Identifier: GPL-2.0-only */
/* The numbers of system calls that carry bytes, which headers of types do not have. */
#ifndef SPRY_SYSCALLS_BPF_H
#define SPRY_SYSCALLS_BPF_H

#if defined(__TARGET_ARCH_x86)
#define NR_read	    0
#define NR_write    1
#define NR_pread64  17
#define NR_readv    19
#define NR_writev   20
#define NR_sendfile 40
#define NR_sendto   44
#define NR_recvfrom 45
#define NR_sendmsg  46
#define NR_recvmsg  47
#define NR_splice   275
#else
#define NR_read	    63
#define NR_write    64
#define NR_pread64  67
#define NR_readv    65
#define NR_writev   66
#define NR_sendfile 71
#define NR_sendto   206
#define NR_recvfrom 207
#define NR_sendmsg  211
#define NR_recvmsg  212
#define NR_splice   76
#endif

#endif
