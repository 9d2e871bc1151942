/* What this process has started and left running: for the end of the command, when nodes
 * in threads have used os.execute or io.popen. */
#ifndef LP_PROCESS_DESCENDANTS_H
#define LP_PROCESS_DESCENDANTS_H

/* From now on a descendant whose parent ends becomes our child instead of init's, so that
 * it is still found. For the command only: a host's process is not ours to change. */
void descendants_adopt(void);
/* Kills every descendant that is in our process group (whoever has left it wanted to
 * survive). */
void descendants_kill(void);

#endif
