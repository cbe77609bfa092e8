/* The module's look at itself. */
#ifndef BECALM_WHOLE_H
#define BECALM_WHOLE_H

/* True where module and check agree, or there is no check. */
int module_is_whole (void);

/* True if becalm left word that the table has bindings. */
int module_has_bindings (void);

#endif
