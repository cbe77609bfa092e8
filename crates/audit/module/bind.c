/* From la_objopen to la_objopen, each object of the start is compared with the record of the
   table. With the last one, before the loader relocates any (dl_main of glibc elf/rtld.c), the
   loader is redirected to relocations of ours (apply.c). If another object follows, the
   redirection is removed; nothing was written yet.

   If anything differs from the record, the start is left to the loader. */
#include "bind.h"
#include "apply.h"
#include "auditors.h"
#include "bound.h"
#include "condition.h"
#include "dynamic.h"
#include "hash.h"
#include "log.h"
#include "pages.h"
#include "process.h"
#include "stubs.h"
#include "system.h"

static enum { IDLE, WATCHING, ARMED, DECLINED } state STATE = IDLE;
/* A record of the program that begins as the start did, and the first record of the program. */
static const struct table_bound_program *program STATE = NULL, *first_record STATE = NULL;
static uint32_t opened STATE = 0;
/* The mapping of the relocations that the loader uses. */
static void *lent STATE = NULL;
static uint64_t lent_size STATE = 0, places_size STATE = 0;
static uint32_t armed STATE = 0;

static void
decline (const char *why, const char *path)
{
  state = DECLINED;
  stubs_decline ("bindings");
  log_line ("bindings", NULL, "declined", why, path != NULL ? path : "", NULL);
}

/* Allocates a place for each object of the longest start, and a load address for each bound
   object. */
static int
make_room (void)
{
  uint64_t most = 0;
  for (const struct table_bound_program *p = program; p != NULL; p = bound_program (NULL, p))
    most = p->member_count > most ? p->member_count : most;
  places_size = most * sizeof (struct place) + (uint64_t) sections[SECTION_BOUND_OBJECTS].count * sizeof *start.bases;
  start.places = sys_allocate ((size_t) places_size);
  if (start.places == NULL)
    return 0;
  start.bases = (elf_word *) (start.places + most);
  return 1;
}

int
bind_init (const char *path)
{
  program = first_record = path != NULL && table_ready () ? bound_program (path, NULL) : NULL;
  if (program == NULL)
    return 0;
  if (program->member_count == 0)
    {
      stubs_decline ("bindings");
      return 1;
    }
  const char *why = process.why_not_bound;
  if (why == NULL && auditors_found & AUDITORS_HOOK)
    why = "auditors";
  if (why == NULL && !make_room ())
    why = "memory";
  state = WATCHING;
  if (why != NULL)
    decline (why, NULL);
  else if (HAS_PAGES)
    pages_begin (program);
  return 1;
}

/* Hashes the dynamic section without the values that the loader and the debugger change: load
   addresses, and the value of DT_DEBUG. */
static uint64_t
hash_dynamic (const struct link_map *map)
{
  const int debug = 21;
  uint64_t hash = 0;
  for (const elf_dyn *entry = map->dynamic; entry->tag != 0; entry++)
    {
      elf_dyn plain = *entry;
      if (plain.tag == debug)
        plain.value = 0;
      else if (map->addr != 0 && plain.value >= map->addr)
        plain.value -= map->addr;
      hash = hash_bytes (hash, &plain, sizeof plain);
    }
  return hash;
}

/* True if the tables of an object are those that its bindings rest on. */
static int
same_tables (const struct table_bound_object *object, const struct link_map *map)
{
  uint32_t count = 0;
  const uint32_t *ranges = object->tables != 0 ? table_set (object->tables - 1, &count) : NULL;
  uint64_t hash = 0;
  for (uint32_t i = 0; ranges != NULL && i + 1 < count; i += 2)
    hash = hash_block (hash, (const void *) (map->addr + ranges[i]), ranges[i + 1]);
  return ranges != NULL && hash == object->tables_hash;
}

/* Returns the difference between OBJECT and the object that was mapped; NULL if there is none. NAME is
   the path of the latter; OTHER_NAME is true if the table has OBJECT under another one. */
static const char *
difference (const struct table_bound_object *object, const struct link_map *map, const char *name,
            int other_name)
{
  if (map->dynamic == NULL || (elf_word) map->dynamic - map->addr != object->dynamic)
    return "other-layout";
  /* A package may be changed in place, so that a build ID is compared in any case. The times of a
     file also change if it gets a link, and those of a copy differ: then its content counts. */
  int is_rooted = (object->flags & BOUND_OBJECT_ROOTED) != 0 && !other_name && roots_hold ();
  int is_same = is_rooted ? object->build_id_length > 0 : !other_name && condition_holds (object->condition);
  if (!is_same && !is_rooted)
    {
      const enum likeness likeness = condition_compare (object->condition, name);
      if (likeness == OTHER_FILE)
        return "other-file";
      is_same = other_name && likeness == SAME_FILE;
    }
  if (hash_dynamic (map) != object->dynamic_hash)
    return "other-dynamic-section";
  if (!is_same && !same_tables (object, map))
    return "other-content";
  start.has_other_times |= !is_same;
  if (object->build_id_length > 0
      && hash_bytes (0, (const void *) (map->addr + object->build_id), object->build_id_length)
             != object->build_id_hash)
    return "other-build-id";
  return NULL;
}

/* Reads the blocks of a place and adds up the memory that they need. */
static int
measure (const struct place *place, uint64_t *relocations, uint32_t *targets)
{
  const struct table_member *member = place->member;
  struct relatives relatives;
  struct bindings b;
  const uint32_t blocks[2] = { member->bindings, member->changes };
  *relocations += 2;
  if (HAS_PAGES && place->pages != NULL)
    {
      *relocations += place->pages->relas;
      return 1;
    }
  if (!bound_relatives (member->relatives, 0, &relatives))
    return 0;
  for (unsigned i = 0; i < 2; i++)
    if (i == 0 || blocks[i] != NO_BLOCK)
      {
        if (!bound_bindings (blocks[i], 0, &b))
          return 0;
        *relocations += (uint64_t) b.residual_count + b.indirect_count;
        *targets = b.target_count > *targets ? b.target_count : *targets;
      }
  return 1;
}

/* Called when every object of the start is as expected. Steps that may fail come first: returns the reason, or
   NULL. */
static const char *
arm (void)
{
  if (process.bind_now && program->flags & PROGRAM_UNDEFINED_FUNCTION)
    return "LD_BIND_NOW";
  uint64_t relocations = 0;
  uint32_t targets = 0;
  if (HAS_PAGES)
    pages_arm (program);
  for (uint32_t i = 0; i < program->member_count; i++)
    {
      struct place *place = &start.places[i];
      if (place->member->bindings == NO_BLOCK)
        continue;
      /* Another copy of this module has changed the entries since. */
      if (place->entries[PLACE_RELA]->value != place->saved[PLACE_RELA])
        return "auditors";
      if (!measure (place, &relocations, &targets))
        return "damaged-table";
    }
  lent_size = relocations * sizeof (struct rela) + (uint64_t) targets * sizeof *start.targets;
  lent = sys_allocate ((size_t) lent_size);
  if (lent == NULL)
    return "memory";
  struct rela *at = lent;
  start.targets = (elf_word *) (at + relocations);
  for (uint32_t i = 0; i < program->member_count; i++)
    if (start.places[i].member->bindings != NO_BLOCK)
      {
        at = place_lead (&start.places[i], at);
        armed++;
      }
  stubs_arm ();
  state = ARMED;
  return NULL;
}

/* True if the next object of a record has the name of MAP. */
static int
is_expected (const struct table_bound_program *record, const struct link_map *map)
{
  const char *path;
  if (record->member_count <= opened)
    return 0;
  const struct table_bound_object *object
      = table_record (SECTION_BOUND_OBJECTS, bound_members (record)[opened].object, &path);
  /* The program has no name. */
  return object != NULL && (opened == 0 || text_equal (map->name, path));
}

/* True if a record has the objects that were opened. */
static int
begins_alike (const struct table_bound_program *record)
{
  const struct table_member *members = bound_members (record);
  for (uint32_t i = 0; i < opened; i++)
    if (members[i].object != start.places[i].member->object
        || (members[i].bindings != NO_BLOCK && !start.places[i].is_found))
      return 0;
  return 1;
}

/* Goes on with a record that has the name of MAP next; returns 0 if there is none. */
static int
choose_record (const struct link_map *map)
{
  const struct table_bound_program *record = first_record;
  if (is_expected (program, map))
    return 1;
  while (record != NULL && !(is_expected (record, map) && begins_alike (record)))
    record = bound_program (NULL, record);
  if (record == NULL)
    return 0;
  program = record;
  for (uint32_t i = 0; i < opened; i++)
    start.places[i].member = &bound_members (program)[i];
  return 1;
}

void
bind_open (const struct link_map *map)
{
  const char *path;
  /* The kernel's own object is in no scope. */
  if (process_is_vdso (map) || state == IDLE || state == DECLINED)
    return;
  if (state == ARMED)
    {
      for (uint32_t i = 0; i < program->member_count; i++)
        if (start.places[i].member->bindings != NO_BLOCK)
          place_restore (&start.places[i]);
      decline ("other-objects", map->name);
      return;
    }
  int other_name = !choose_record (map);
  const struct table_member *member = &bound_members (program)[opened];
  const struct table_bound_object *object = table_record (SECTION_BOUND_OBJECTS, member->object, &path);
  if (object == NULL)
    {
      decline ("damaged-table", NULL);
      return;
    }
  /* The same file under another name is the same object: LD_LIBRARY_PATH may spell a directory
     in another way. */
  path = opened > 0 ? map->name : path;
  const char *why = difference (object, map, path, other_name);
  struct place *place = &start.places[opened];
  place->member = member;
  place->addr = map->addr;
  place->is_found = place_find (place, map);
  if (why == NULL && member->bindings != NO_BLOCK && !place->is_found)
    why = "other-layout";
  if (why != NULL)
    {
      decline (other_name ? "other-objects" : why, path);
      return;
    }
  start.bases[member->object] = map->addr;
  stubs_see (map);
  if (++opened == program->member_count && (why = arm ()) != NULL)
    decline (why, NULL);
}

void
bind_finish (void)
{
  char bindings[DIGITS_SIZE], relocations[DIGITS_SIZE];
  if (state == WATCHING)
    decline ("other-objects", NULL);
  if (HAS_PAGES)
    pages_finish (state == ARMED && start.applied == armed ? program : NULL);
  if (state == ARMED)
    {
      log_line ("bindings", NULL, "applied", digits_of (program->bindings, bindings),
                digits_of (program->relocations, relocations), NULL);
      stubs_finish ();
      /* Every redirection was removed. */
      if (start.applied == armed)
        {
          sys_unmap (lent, (size_t) lent_size);
          sys_unmap (start.places, (size_t) places_size);
        }
    }
  state = IDLE;
}
