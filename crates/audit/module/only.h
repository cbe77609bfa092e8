/* BECALM=only: the program's children get the environment that becalm was given. */
#ifndef BECALM_ONLY_H
#define BECALM_ONLY_H

/* Takes what becalm has added to the environment back out of it. Called once, before the first
   constructor. */
void only_restore (void);

#endif
