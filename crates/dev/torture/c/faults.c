/*
 * Runs a command and makes one of its writes fail, selected by number:
 *
 *   faults HOW NUMBER FOLDER COMMAND [ARGUMENT...]
 *
 * HOW is one of:
 *   count              no write fails
 *   enospc, eio        the write with this number fails
 *   enospc-on, eio-on  the write with this number and all later writes fail
 *   short, short-on    the write (and all later ones) writes half of the requested bytes
 *
 * A write is every system call that changes a file below FOLDER, in any process that the command starts. The last
 * line on standard error is the number of writes.
 *
 * This is a tracer and not a preloaded library, because the command makes its system calls directly. A filter stops
 * only the calls that count, so that everything else runs at full speed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#if !defined(__x86_64__)
#error "system call registers are only implemented for x86_64"
#endif

#define TRACED(number) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE)

static void filter_writes(void) {
    static struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        TRACED(SYS_write),      TRACED(SYS_pwrite64),  TRACED(SYS_writev),          TRACED(SYS_pwritev),
        TRACED(SYS_pwritev2),   TRACED(SYS_fsync),     TRACED(SYS_fdatasync),       TRACED(SYS_fallocate),
        TRACED(SYS_ftruncate),  TRACED(SYS_rename),    TRACED(SYS_renameat),        TRACED(SYS_renameat2),
        TRACED(SYS_sendfile),   TRACED(SYS_copy_file_range),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
        perror("faults: cannot filter system calls");
        _exit(125);
    }
}

/* Whether a file of the process is below the folder. */
static int is_below(pid_t process, unsigned long long file, const char *folder) {
    char link[64], target[4096];
    snprintf(link, sizeof link, "/proc/%d/fd/%d", process, (int)file);
    ssize_t length = readlink(link, target, sizeof target - 1);
    if (length <= 0)
        return 0;
    target[length] = 0;
    return strncmp(target, folder, strlen(folder)) == 0;
}

static int is_rename(unsigned long long call) {
    return call == SYS_rename || call == SYS_renameat || call == SYS_renameat2;
}

/* The file that a call writes to. */
static unsigned long long written(const struct user_regs_struct *registers) {
    return registers->orig_rax == SYS_copy_file_range ? registers->rdx : registers->rdi;
}

/* Whether a register of the call was changed and must be restored when the call returns. The kernel does not change the
 * length, and code that makes its calls directly continues to use the register. */
static int damage(struct user_regs_struct *registers, const char *how) {
    if (strncmp(how, "short", 5) == 0) {
        unsigned long long call = registers->orig_rax;
        if ((call == SYS_write || call == SYS_pwrite64) && registers->rdx > 1)
            registers->rdx /= 2;
        else if ((call == SYS_writev || call == SYS_pwritev || call == SYS_pwritev2) && registers->rdx > 1)
            registers->rdx = 1;
        return 1;
    }
    registers->orig_rax = -1;
    registers->rax = strncmp(how, "eio", 3) == 0 ? -EIO : -ENOSPC;
    return 0;
}

/* The active calls that write less than requested. */
static struct {
    pid_t process;
    unsigned long long length;
} shortened[64];

static int shortened_by(pid_t process) {
    int place = 0;
    while (place < 64 && shortened[place].process != process)
        place++;
    return place;
}

/* Restores the requested length in a register when a call returns. */
static void lengthen(pid_t process) {
    struct user_regs_struct registers;
    int place = shortened_by(process);
    if (place == 64 || ptrace(PTRACE_GETREGS, process, NULL, &registers))
        return;
    registers.rdx = shortened[place].length;
    ptrace(PTRACE_SETREGS, process, NULL, &registers);
    shortened[place].process = 0;
}

int main(int count, char **words) {
    if (count < 5) {
        fprintf(stderr, "usage: faults count|enospc|eio|short[-on] NUMBER FOLDER COMMAND [ARGUMENT...]\n");
        return 125;
    }
    const char *how = words[1], *folder = words[3];
    unsigned long chosen = strtoul(words[2], NULL, 10), number = 0;
    int on = strstr(how, "-on") != NULL, counts = strcmp(how, "count") == 0, go[2];
    if (pipe(go))
        return 125;
    pid_t command = fork();
    if (command == 0) {
        char byte;
        close(go[1]);
        if (read(go[0], &byte, 1) != 1)
            _exit(125);
        close(go[0]);
        filter_writes();
        execvp(words[4], words + 4);
        perror("faults: cannot start the command");
        _exit(125);
    }
    long options = PTRACE_O_TRACESECCOMP | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC |
                   PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL;
    if (command < 0 || ptrace(PTRACE_SEIZE, command, NULL, options)) {
        perror("faults: cannot trace the command");
        return 125;
    }
    close(go[0]);
    if (write(go[1], "g", 1) != 1)
        return 125;
    close(go[1]);

    int status, end = 0;
    for (pid_t process; (process = waitpid(-1, &status, __WALL)) > 0;) {
        if (!WIFSTOPPED(status)) {
            if (process == command)
                end = status;
            continue;
        }
        int event = status >> 16, sent = WSTOPSIG(status);
        if (event == PTRACE_EVENT_STOP && sent != SIGTRAP) {
            ptrace(PTRACE_LISTEN, process, NULL, NULL);
            continue;
        }
        if (sent == (SIGTRAP | 0x80)) {
            lengthen(process);
            ptrace(PTRACE_CONT, process, NULL, NULL);
            continue;
        }
        int go_on = PTRACE_CONT;
        struct user_regs_struct registers;
        if (event == PTRACE_EVENT_SECCOMP && ptrace(PTRACE_GETREGS, process, NULL, &registers) == 0 &&
            (is_rename(registers.orig_rax) || is_below(process, written(&registers), folder))) {
            number++;
            if (!counts && (number == chosen || (on && number > chosen))) {
                int place = shortened_by(0);
                unsigned long long length = registers.rdx;
                if (damage(&registers, how) && place < 64) {
                    shortened[place].process = process;
                    shortened[place].length = length;
                    go_on = PTRACE_SYSCALL;
                }
                ptrace(PTRACE_SETREGS, process, NULL, &registers);
            }
        }
        ptrace(go_on, process, NULL, (long)(event ? 0 : sent));
    }
    fprintf(stderr, "\nfaults: %lu writes\n", number);
    if (WIFSIGNALED(end)) {
        signal(WTERMSIG(end), SIG_DFL);
        raise(WTERMSIG(end));
    }
    return WEXITSTATUS(end);
}
