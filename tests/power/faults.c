/* Makes calls fail that change files below one folder: the n-th of a kind, so many times. Every such call is traced.
 *
 * Loaded with LD_PRELOAD, told what to do by faults_arm. A line of the trace: kind, descriptor, path, offset, length,
 * error (0: done; -1: half of it was written, and that was said). Kinds: W write, S sync, R rename or link, C create, T truncate, D delete, M make a folder.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static char folder[4096], kinds[16];
static int trace = -1, error;
static long at, times, seen, failed;

void faults_arm(const char *below, const char *of, long first, long count, int code, int tracing)
{
	snprintf(folder, sizeof folder, "%s/", below);
	snprintf(kinds, sizeof kinds, "%s", of);
	at = first, times = count, error = code, trace = tracing;
	seen = failed = 0;
}

void faults_disarm(void) { times = 0; }
long faults_seen(void) { return seen; }
long faults_failed(void) { return failed; }

/* The error that this call must give, 0 if it may go on. */
static int met(char kind, int file, const char *path, long offset, long length)
{
	char name[4096], link[64], line[4400];
	int code = 0, kept = errno;
	ssize_t size;

	if (trace < 0)
		return 0;
	if (!path) {
		snprintf(link, sizeof link, "/proc/self/fd/%d", file);
		size = readlink(link, name, sizeof name - 1);
		if (size < 0)
			return errno = kept, 0;
		name[size] = 0;
		path = name;
	}
	errno = kept;
	size = strlen(folder) - 1;
	if (strncmp(path, folder, size) || (path[size] && path[size] != '/'))
		return 0;
	if (strchr(kinds, kind) && ++seen >= at && seen < at + times)
		code = error, failed++;
	size = snprintf(line, sizeof line, "%c\t%d\t%s\t%ld\t%ld\t%d\n", kind, file, path, offset, length, code);
	syscall(SYS_write, trace, line, size);
	errno = kept;
	return code;
}

/* A name of the C library, with the check before it. */
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define GUARD(kind, file, path, offset, length) \
	do { \
		int code = met(kind, file, path, offset, length); \
		if (code) \
			return errno = code, -1; \
	} while (0)

static long position(int file)
{
	struct stat found;

	if (fcntl(file, F_GETFL) & O_APPEND)
		return fstat(file, &found) ? 0 : found.st_size;
	return lseek(file, 0, SEEK_CUR);
}

/* The same for a write, which may also be cut short. */
#define GUARD_WRITE(file, offset, size) \
	do { \
		int code = met('W', file, 0, offset, size); \
		if (code > 0) \
			return errno = code, -1; \
		if (code < 0) \
			size = (size + 1) / 2; \
	} while (0)

ssize_t write(int file, const void *from, size_t size)
{
	GUARD_WRITE(file, position(file), size);
	return REAL(write)(file, from, size);
}

ssize_t writev(int file, const struct iovec *parts, int count)
{
	long size = 0;

	for (int n = 0; n < count; n++)
		size += parts[n].iov_len;
	int code = met('W', file, 0, position(file), size);
	if (code > 0)
		return errno = code, -1;
	return code < 0 ? REAL(write)(file, parts[0].iov_base, (parts[0].iov_len + 1) / 2) : REAL(writev)(file, parts, count);
}

#define PWRITE(name, offset_t) \
	ssize_t name(int file, const void *from, size_t size, offset_t offset) \
	{ \
		GUARD_WRITE(file, offset, size); \
		return REAL(name)(file, from, size, offset); \
	}
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

#define SYNC(name) \
	int name(int file) \
	{ \
		GUARD('S', file, 0, 0, 0); \
		return REAL(name)(file); \
	}
SYNC(fsync)
SYNC(fdatasync)

#define TRUNCATE(name, offset_t) \
	int name(int file, offset_t size) \
	{ \
		GUARD('T', file, 0, size, 0); \
		return REAL(name)(file, size); \
	}
TRUNCATE(ftruncate, off_t)
TRUNCATE(ftruncate64, off64_t)

#define OPEN(name) \
	int name(const char *path, int flags, ...) \
	{ \
		va_list more; \
		mode_t mode; \
		va_start(more, flags); \
		mode = va_arg(more, mode_t); \
		va_end(more); \
		if (flags & O_CREAT && access(path, F_OK)) \
			GUARD('C', -1, path, 0, 0); \
		return REAL(name)(path, flags, mode); \
	}
OPEN(open)
OPEN(open64)

int rename(const char *from, const char *to)
{
	GUARD('R', -1, to, 0, 0);
	return REAL(rename)(from, to);
}

int link(const char *from, const char *to)
{
	GUARD('R', -1, to, 0, 0);
	return REAL(link)(from, to);
}

int unlink(const char *path)
{
	GUARD('D', -1, path, 0, 0);
	return REAL(unlink)(path);
}

int mkdir(const char *path, mode_t mode)
{
	GUARD('M', -1, path, 0, 0);
	return REAL(mkdir)(path, mode);
}

int close(int file)
{
	met('X', file, 0, 0, 0);
	return REAL(close)(file);
}
