/* Preloaded into a traced program: where it would start itself as /proc/self/exe, which is valgrind then, the file that
 * LAYOUT_PROGRAM names is started in its place. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>

typedef int spawn_fn(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
                     char *const[], char *const[]);

int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *attributes, char *const argv[], char *const environment[]) {
    spawn_fn *next = (spawn_fn *)dlsym(RTLD_NEXT, "posix_spawnp");
    const char *program = getenv("LAYOUT_PROGRAM");
    if (program != NULL && strcmp(file, "/proc/self/exe") == 0) file = program;
    return next(pid, file, actions, attributes, argv, environment);
}
