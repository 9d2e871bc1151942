/* The prompt of `lp repl` on a terminal: lines edited by libedit on a thread of their own, so that
 * the main thread's loop goes on turning. Part of the command, not of the library.
 *
 * While it is open, stdout and stderr are a pipe to that thread, which alone writes to the
 * terminal: what nodes print appears above the line that is being typed. */
#ifndef LP_API_TERMINAL_H
#define LP_API_TERMINAL_H

#include <lua.h>
#include <stdbool.h>

/* Are the command's words those of a prompt, and are stdin and stdout a terminal? */
bool terminal_wanted(int argc, char **argv);
/* Begins to lead stdout and stderr past the thread; before anybody else has them. False: it cannot
 * be done, and everything stays as it is. */
bool terminal_divert(void);
/* Shows what is still under way, and gives the terminal back as it was. Any thread, more than
 * once; does nothing when there was no divert. */
void terminal_end(void);
/* Sets the field `terminal` of the table on top, if there is one:
 *   start(history file or nil, handler)  handler(kind, text) is called in a task: "line", "eof",
 *                                        "interrupt" (Ctrl-C), and "complete" with what is typed
 *   read(prompt)                         asks for a line
 *   complete(insert, list)               answers "complete": text to insert, text to show, or ""
 *   write(text)                         shows a text before that line
 *   columns() -> width of the terminal */
void terminal_open(lua_State *L);

#endif
