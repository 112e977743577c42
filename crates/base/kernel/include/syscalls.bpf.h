/* SPDX-License-Identifier: GPL-2.0-only */
/* The numbers of system calls that carry bytes or wake other tasks; the headers with types do not have
 * them. */
#ifndef SPRY_SYSCALLS_BPF_H
#define SPRY_SYSCALLS_BPF_H

#if defined(__TARGET_ARCH_x86)
#define NR_read		   0
#define NR_write	   1
#define NR_ioctl	   16
#define NR_pread64	   17
#define NR_readv	   19
#define NR_writev	   20
#define NR_sendfile	   40
#define NR_connect	   42
#define NR_accept	   43
#define NR_sendto	   44
#define NR_recvfrom	   45
#define NR_sendmsg	   46
#define NR_recvmsg	   47
#define NR_shutdown	   48
#define NR_semop	   65
#define NR_msgsnd	   69
#define NR_msgrcv	   70
#define NR_fcntl	   72
#define NR_flock	   73
#define NR_futex	   202
#define NR_semtimedop	   220
#define NR_mq_timedsend	   242
#define NR_mq_timedreceive 243
#define NR_splice	   275
#define NR_tee		   276
#define NR_vmsplice	   278
#define NR_accept4	   288
#define NR_recvmmsg	   299
#define NR_sendmmsg	   307
#else
#define NR_fcntl	   25
#define NR_ioctl	   29
#define NR_flock	   32
#define NR_read		   63
#define NR_write	   64
#define NR_readv	   65
#define NR_writev	   66
#define NR_pread64	   67
#define NR_sendfile	   71
#define NR_vmsplice	   75
#define NR_splice	   76
#define NR_tee		   77
#define NR_futex	   98
#define NR_mq_timedsend	   182
#define NR_mq_timedreceive 183
#define NR_msgrcv	   188
#define NR_msgsnd	   189
#define NR_semtimedop	   192
#define NR_semop	   193
#define NR_accept	   202
#define NR_connect	   203
#define NR_sendto	   206
#define NR_recvfrom	   207
#define NR_shutdown	   210
#define NR_sendmsg	   211
#define NR_recvmsg	   212
#define NR_accept4	   242
#define NR_recvmmsg	   243
#define NR_sendmmsg	   269
#endif

/* Newer system calls have the same number on every architecture. */
#define NR_futex_wake	 454
#define NR_futex_requeue 456

#if defined(__TARGET_ARCH_x86)
/* The numbers of system calls of 32-bit programs. */
#define NR_32_read		     3
#define NR_32_write		     4
#define NR_32_ioctl		     54
#define NR_32_fcntl		     55
#define NR_32_ipc		     117
#define NR_32_flock		     143
#define NR_32_readv		     145
#define NR_32_writev		     146
#define NR_32_sendfile		     187
#define NR_32_fcntl64		     221
#define NR_32_sendfile64	     239
#define NR_32_futex		     240
#define NR_32_mq_timedsend	     279
#define NR_32_mq_timedreceive	     280
#define NR_32_splice		     313
#define NR_32_recvmmsg		     337
#define NR_32_sendmmsg		     345
#define NR_32_connect		     362
#define NR_32_accept4		     364
#define NR_32_sendto		     369
#define NR_32_sendmsg		     370
#define NR_32_recvfrom		     371
#define NR_32_recvmsg		     372
#define NR_32_shutdown		     373
#define NR_32_mq_timedsend_time64    418
#define NR_32_mq_timedreceive_time64 419
#define NR_32_futex_time64	     422
#endif

#endif
