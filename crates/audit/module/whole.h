/* The module's check of itself. */
#pragma once

/* True if the module matches its checksum, or if there is none. */
int module_is_whole (void);

/* True if becalm recorded that the table has bindings. */
int module_has_bindings (void);
