/* SPDX-License-Identifier: GPL-2.0-only */
/* Open files: the file behind a descriptor, and the numbers of kinds of files, which the headers with types
 * do not have. */
#ifndef SPRY_FILES_BPF_H
#define SPRY_FILES_BPF_H

#define S_IFMT	 0170000
#define S_IFSOCK 0140000
#define S_IFREG	 0100000
#define S_IFDIR	 0040000
#define S_IFCHR	 0020000
#define S_IFIFO	 0010000

#define AF_UNIX	 1
#define AF_INET	 2
#define AF_INET6 10

#define DEV_MAJOR(device) ((device) >> 20)
#define MEM_MAJOR	  1
#define TTY_MAJOR	  4
#define TTYAUX_MAJOR	  5
/* The major numbers of pseudo-terminals: the masters have the numbers from the first one on, the slaves from
 * the second one to the last one. */
#define PTY_MASTER_MAJOR 128
#define PTY_SLAVE_MAJOR	 136
#define PTY_LAST_MAJOR	 143

/* The file behind a task's descriptor; NULL if the task has no such descriptor. */
static __always_inline struct file *file_of(struct task_struct *task, u32 fd)
{
	struct fdtable *table = task->files->fdt;
	struct file **files, *file = NULL;

	if (!table || fd >= table->max_fds)
		return NULL;
	files = table->fd;
	bpf_probe_read_kernel(&file, sizeof(file), files + fd);
	return file;
}

#endif
