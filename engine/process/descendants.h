/* What this process has started and left running: for the end of the command, when nodes
 * in threads have used os.execute or io.popen. */
#ifndef LP_PROCESS_DESCENDANTS_H
#define LP_PROCESS_DESCENDANTS_H

#include <sys/types.h>

/* From now on a descendant whose parent ends becomes our child instead of init's, so that
 * it is still found. For the command only: a host's process is not ours to change. */
void descendants_adopt(void);
/* Kills every descendant that is in our process group (whoever has left it wanted to
 * survive). */
void descendants_kill(void);
/* The same for another process that has ended: kills, in `group`, every process started with
 * the word `mark` (NAME=VALUE) in its environment, and its descendants. */
void descendants_kill_marked(const char *mark, pid_t group);

#endif
