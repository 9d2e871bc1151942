/* Removing a folder with everything in it, following no link on the way. */
#ifndef LP_PROCESS_TREE_H
#define LP_PROCESS_TREE_H

/* Removes the file, link or folder `name` in the folder open as `parent` (or AT_FDCWD), with all
 * it holds; what cannot be removed stays. */
void tree_remove(int parent, const char *name);

#endif
