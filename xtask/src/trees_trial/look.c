/* Prints the result of each call on each path of a list: LIST has one path a line. With another argument it
 * waits for input, and then starts itself without that argument.
 *
 * Each call prints one line, so that line N of two outputs is the same call on the same path: the path,
 * a tab, the call, a tab, and its result. Times of access and device numbers are left out. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *path;

static void failed(const char *call) { printf("%s\t%s\terrno %d\n", path, call, errno); }

static void absent(const char *call) { printf("%s\t%s\t-\n", path, call); }

static void facts(const char *call, int result, const struct stat *s) {
    if (result != 0) {
        failed(call);
        return;
    }
    printf("%s\t%s\tmode %o nlink %ju uid %u gid %u size %jd ino %ju mtime %jd.%09ld ctime %jd.%09ld\n",
           path, call, s->st_mode, (uintmax_t)s->st_nlink, s->st_uid, s->st_gid, (intmax_t)s->st_size,
           (uintmax_t)s->st_ino, (intmax_t)s->st_mtim.tv_sec, s->st_mtim.tv_nsec,
           (intmax_t)s->st_ctim.tv_sec, s->st_ctim.tv_nsec);
}

static void extended(const char *call, int flags) {
    struct statx x = {0};
    int result = statx(AT_FDCWD, path, flags, STATX_BASIC_STATS, &x);
    struct stat s = {.st_mode = x.stx_mode, .st_nlink = x.stx_nlink, .st_uid = x.stx_uid, .st_gid = x.stx_gid,
                     .st_size = (off_t)x.stx_size, .st_ino = x.stx_ino,
                     .st_mtim = {x.stx_mtime.tv_sec, x.stx_mtime.tv_nsec},
                     .st_ctim = {x.stx_ctime.tv_sec, x.stx_ctime.tv_nsec}};
    facts(call, result, &s);
}

/* Prints the length of a file and its hash (FNV-1a, of 64 bits), and closes it. */
static void contents(const char *call, FILE *file) {
    char buffer[8192];
    uint64_t h = 0xcbf29ce484222325;
    size_t length = 0, got;
    while ((got = fread(buffer, 1, sizeof buffer, file)) > 0) {
        for (size_t at = 0; at < got; at++)
            h = (h ^ (unsigned char)buffer[at]) * 0x100000001b3;
        length += got;
    }
    if (ferror(file))
        failed(call);
    else
        printf("%s\t%s\t%zu bytes, hash %016jx\n", path, call, length, (uintmax_t)h);
    fclose(file);
}

static void by_descriptor(void) {
    struct stat s;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        failed("open");
        absent("fstat");
        absent("read");
        return;
    }
    printf("%s\topen\topened\n", path);
    facts("fstat", fstat(fd, &s), &s);
    contents("read", fdopen(fd, "r"));
}

static void by_stream(void) {
    FILE *file = fopen(path, "r");
    if (file == NULL)
        failed("fopen");
    else
        contents("fread", file);
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void names(void) {
    static char *found[65536];
    size_t count = 0;
    struct dirent *entry;
    DIR *directory = opendir(path);
    if (directory == NULL) {
        failed("opendir");
        return;
    }
    while (count < sizeof found / sizeof *found && (entry = readdir(directory)) != NULL)
        found[count++] = strdup(entry->d_name);
    closedir(directory);
    qsort(found, count, sizeof *found, by_name);
    printf("%s\treaddir\t%zu:", path, count);
    for (size_t at = 0; at < count; at++) {
        printf(" %s/", found[at]);
        free(found[at]);
    }
    printf("\n");
}

static void real(const char *call, char *buffer) {
    char *found = realpath(path, buffer);
    if (found == NULL)
        failed(call);
    else
        printf("%s\t%s\t%s\n", path, call, found);
    if (buffer == NULL)
        free(found);
}

static void look(void) {
    struct stat s;
    char target[4096];
    facts("lstat", lstat(path, &s), &s);
    facts("stat", stat(path, &s), &s);
    facts("fstatat", fstatat(AT_FDCWD, path, &s, 0), &s);
    facts("fstatat of the link", fstatat(AT_FDCWD, path, &s, AT_SYMLINK_NOFOLLOW), &s);
    extended("statx", 0);
    extended("statx of the link", AT_SYMLINK_NOFOLLOW);
    if (access(path, F_OK) == 0)
        printf("%s\taccess\tthere\n", path);
    else
        failed("access");
    ssize_t length = readlink(path, target, sizeof target);
    if (length < 0)
        failed("readlink");
    else
        printf("%s\treadlink\t%.*s\n", path, (int)length, target);
    real("realpath", NULL);
    real("realpath into a buffer", target);
    by_descriptor();
    by_stream();
    names();
}

static int later(char **arguments) {
    int status = -1;
    getchar();
    pid_t child = fork();
    if (child == 0) {
        execl(arguments[0], arguments[0], arguments[1], (char *)NULL);
        _exit(127);
    }
    return waitpid(child, &status, 0) == child && status == 0 ? 0 : 2;
}

int main(int count, char **arguments) {
    if (count == 3)
        return later(arguments);
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    FILE *list = count == 2 ? fopen(arguments[1], "r") : NULL;
    if (list == NULL) {
        fprintf(stderr, "look: no list\n");
        return 2;
    }
    while ((length = getline(&line, &room, list)) > 0) {
        if (line[length - 1] == '\n')
            line[length - 1] = 0;
        path = line;
        look();
    }
    return fflush(stdout) == 0 ? 0 : 2;
}
