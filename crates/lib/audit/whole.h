/* The module's look at itself. */
#ifndef BECALM_WHOLE_H
#define BECALM_WHOLE_H

/* True where module and check agree, or there is no check. */
int module_is_whole (void);

#endif
