/* BECALM=only: the program's children get the environment that becalm was given. */
#pragma once

/* Takes what becalm has added to the environment back out of it. Called once, before the first
   constructor. */
void only_restore (void);
