/* How the loader is made to use relocations of ours.

   _dl_relocate_object (glibc elf/dl-reloc.c) finds an object's relocations by its dynamic
   section (_ELF_DYNAMIC_DO_RELOC of elf/dynamic-link.h) and processes them in order, those of
   type IRELATIVE last (elf_dynamic_do_Rela of elf/do-rel.h). For an object with known bindings
   it finds an array of ours instead:

   - RELATIVE: stores the address of the object's place in `relocating`.
   - IRELATIVE: calls `resolver`. It restores the dynamic section, from which the loader has read
     everything by then, and writes relatives and bindings. This is before _dl_protect_relro.
   - The relocations left to the loader, unchanged.
   - IRELATIVE for each function that a resolver chooses, unless it stays lazy. The loader calls the
     resolver with the arguments of its machine, and stores its result. */
#include "apply.h"
#include "dynamic.h"
#include "pages.h"
#include "process.h"
#include "stubs.h"

#if defined __x86_64__
# define R_RELATIVE 8u
# define R_IRELATIVE 37u
#elif defined __aarch64__
# define R_RELATIVE 1027u
# define R_IRELATIVE 1032u
#elif defined __riscv && __SIZEOF_POINTER__ == 8
# define R_RELATIVE 3u
# define R_IRELATIVE 58u
#elif defined __powerpc64__ && defined __LITTLE_ENDIAN__
# define R_RELATIVE 22u
# define R_IRELATIVE 248u
#elif defined __s390x__
# define R_RELATIVE 12u
# define R_IRELATIVE 61u
#else
# define R_RELATIVE 0u
# define R_IRELATIVE 0u
#endif

#define DT_TEXTREL 22
#define DT_RELACOUNT 0x6ffffff9

struct start start STATE = { NULL, NULL, NULL, 0, 0 };
/* The place of the object that the loader relocates. */
static struct place *relocating STATE = NULL;
static elf_word ignored STATE = 0;

int
place_find (struct place *place, const struct link_map *map)
{
  static const elf_sword tags[PLACE_ENTRIES] = { DT_RELA, DT_RELASZ, DT_RELACOUNT, DT_PLTRELSZ };
  /* The loader maps the section writable, because it writes addresses into it itself. */
  for (unsigned i = 0; i < PLACE_ENTRIES; i++)
    place->entries[i] = (elf_dyn *) (uintptr_t) dynamic_entry (map, tags[i]);
  if (dynamic_entry (map, DT_TEXTREL) != NULL || place->entries[PLACE_RELA] == NULL
      || place->entries[PLACE_RELASZ] == NULL)
    return 0;
  /* Some loaders leave the entries as they are in the file and add the load address at each use
     (DL_RO_DYN_SECTION of glibc). */
  elf_word value = place->entries[PLACE_RELA]->value;
  place->added_later = dynamic_address (map, value) - value;
  place->saved[PLACE_RELA] = value;
  return 1;
}

void
place_restore (struct place *place)
{
  for (unsigned i = 0; i < PLACE_ENTRIES; i++)
    if (place->entries[i] != NULL)
      place->entries[i]->value = place->saved[i];
}

/* The number of the lowest bit that is set. */
static inline unsigned
lowest_bit (uint32_t bits)
{
#ifdef __riscv
  /* Without an instruction for it gcc calls a function of libgcc. The module has none of libgcc. In
     the constant, each sequence of five bits occurs once (a de Bruijn sequence). */
  static const unsigned char numbers[32]
      = { 0,  1,  28, 2,  29, 14, 24, 3, 30, 22, 20, 15, 25, 17, 4,  8,
          31, 27, 13, 23, 21, 19, 16, 7, 26, 12, 18, 6,  11, 5,  10, 9 };
  return numbers[((bits & -bits) * 0x077cb531u) >> 27];
#else
  return (unsigned) __builtin_ctz (bits);
#endif
}

/* What is written into the words of a list. */
enum contents
{
  /* The load address and a value. */
  RELATIVES,
  /* A target, by an index of 16 or of 32 bits. */
  NARROW_INDEXES,
  WIDE_INDEXES,
};

/* Inlined for each kind of contents. CONTENTS is a constant. */
static inline __attribute__ ((always_inline)) void
write_words (elf_word addr, const struct words *words, const void *list, enum contents contents)
{
  const elf_word *targets = start.targets;
  const uint16_t *narrow = list;
  const uint32_t *wide = list;
  elf_word *slot = (elf_word *) addr;
  uint32_t next = 0;
#define CONTENT \
  (contents == RELATIVES ? addr + wide[next] \
                         : targets[contents == WIDE_INDEXES ? wide[next] : narrow[next]])
  for (const uint32_t *at = words->at; at < words->end && next < words->count; at++)
    {
      uint32_t bits = *at;
      if ((bits & 1) == 0)
        {
          slot = (elf_word *) (addr + bits);
          *slot++ = CONTENT;
          next++;
          continue;
        }
      for (bits >>= 1; bits != 0 && next < words->count; bits &= bits - 1, next++)
        slot[lowest_bit (bits)] = CONTENT;
      slot += 31;
    }
#undef CONTENT
}

static elf_word
base_of (uint32_t object)
{
  return object == ABSOLUTE ? 0 : start.bases[object];
}

/* The address of each target, or of the stub that the object's calls go through. */
static void
resolve_targets (const struct place *place, const struct bindings *b)
{
  const int32_t *target = b->targets;
  elf_word *to = start.targets;
  for (uint32_t i = 0; i < b->definer_count; i++)
    {
      elf_word base = base_of (b->definers[i].object);
      int has_stubs = stubs_serve (place->addr, base);
      for (uint32_t n = b->definers[i].target_count; n > 0; n--)
        {
          elf_word address = base + (elf_word) (elf_sword) *target++;
          *to++ = has_stubs ? stubs_redirect (address) : address;
        }
    }
}

static void
write_bindings (const struct place *place, uint32_t block)
{
  struct bindings b;
  if (block == NO_BLOCK || !bound_bindings (block, 1, &b))
    return;
  resolve_targets (place, &b);
  if (b.flags & BINDINGS_WIDE)
    write_words (place->addr, &b.slots, b.slot_targets, WIDE_INDEXES);
  else
    write_words (place->addr, &b.slots, b.slot_targets, NARROW_INDEXES);
  /* As elf_machine_lazy_rel: the slot leads back into the PLT. With LD_BIND_NOW an undefined weak
     function is 0, and the loader stores what a resolver returns. */
  for (uint32_t i = 0; i < b.lazy_count; i++)
    {
      elf_word *slot = (elf_word *) (place->addr + b.lazies[i]);
      *slot = process.bind_now ? 0 : *slot + place->addr;
    }
}

/* Called by the loader as the resolver of an IRELATIVE relocation. */
static elf_word
resolver (void)
{
  struct place *place = relocating;
  struct relatives relatives;
  place_restore (place);
  start.applied++;
  if (HAS_PAGES && place->pages != NULL)
    {
      pages_map (place);
      return 0;
    }
  if (bound_relatives (place->member->relatives, 1, &relatives))
    write_words (place->addr, &relatives.words, relatives.values, RELATIVES);
  write_bindings (place, place->member->bindings);
  write_bindings (place, place->member->changes);
  return 0;
}

static struct rela *
put (struct rela *to, const struct place *place, const void *slot, uint32_t type,
     elf_word value)
{
  to->offset = (elf_word) slot - place->addr;
  to->info = type;
  to->addend = (elf_sword) (value - place->addr);
  return to + 1;
}

/* The object that has a target. */
static elf_word
target_address (const struct bindings *b, uint32_t target)
{
  uint32_t first = 0;
  for (uint32_t i = 0; i < b->definer_count; first += b->definers[i++].target_count)
    if (target - first < b->definers[i].target_count)
      return base_of (b->definers[i].object) + (elf_word) (elf_sword) b->targets[target];
  return 0;
}

static struct rela *
put_block (struct rela *to, const struct place *place, uint32_t block)
{
  struct bindings b;
  if (block == NO_BLOCK || !bound_bindings (block, 1, &b))
    return to;
  const unsigned symbol_at = sizeof (elf_word) == 8 ? 32 : 8;
  for (uint32_t i = 0; i < b.residual_count; i++, to++)
    {
      to->offset = b.residuals[i].offset;
      to->info = (elf_word) b.residuals[i].symbol << symbol_at | b.residuals[i].type;
      to->addend = b.residuals[i].addend;
    }
  uint32_t lazy = process.bind_now ? b.lazy_count : 0;
  for (uint32_t i = 0; i < b.indirect_count; i++)
    {
      uint32_t offset = b.indirects[i].offset;
      while (lazy < b.lazy_count && b.lazies[lazy] < offset)
        lazy++;
      if (lazy == b.lazy_count || b.lazies[lazy] != offset)
        to = put (to, place, (void *) (place->addr + offset), R_IRELATIVE,
                  target_address (&b, b.indirects[i].target));
    }
  return to;
}

struct rela *
place_lead (struct place *place, struct rela *to)
{
  struct rela *end = put (to, place, &relocating, R_RELATIVE, (elf_word) place);
  end = put (end, place, &ignored, R_IRELATIVE, (elf_word) resolver);
  if (HAS_PAGES && place->pages != NULL)
    end = pages_entries (place, end);
  else
    end = put_block (put_block (end, place, place->member->bindings), place, place->member->changes);
  place->lent = to;
  place->lent_count = (uint64_t) (end - to);
  const elf_word values[PLACE_ENTRIES]
      = { (elf_word) to - place->added_later, (elf_word) (place->lent_count * sizeof *to), 0, 0 };
  for (unsigned i = 0; i < PLACE_ENTRIES; i++)
    if (place->entries[i] != NULL)
      {
        place->saved[i] = place->entries[i]->value;
        place->entries[i]->value = values[i];
      }
  return end;
}
