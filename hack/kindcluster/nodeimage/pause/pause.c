/* The first process of each pod sandbox: it reaps children and ends by SIGINT or SIGTERM. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void end(int signal) {
	(void)signal;
	_exit(0);
}

static void reap(int signal) {
	(void)signal;
	while (waitpid(-1, 0, WNOHANG) > 0)
		;
}

int main(void) {
	struct sigaction ends = {.sa_handler = end}, reaps = {.sa_handler = reap};

	sigaction(SIGINT, &ends, 0);
	sigaction(SIGTERM, &ends, 0);
	sigaction(SIGCHLD, &reaps, 0);
	for (;;)
		pause();
}
