/* Definitions for a freestanding C11 file: the ELF and link-map types of this machine, and the
   four memory functions that a compiler may call by itself.

   Types follow the gABI; the head of `struct link_map` is the public part in <link.h>, unchanged
   since glibc 2.0. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__ ((visibility ("default"), used))
/* State is in .data, as zeros in the file: a .bss would cost one more mapping. All of it is zero
   at first (whole.c); a buffer is written before it is read. */
#define STATE __attribute__ ((section (".data.state")))
#define BUFFER __attribute__ ((section (".data.buffer")))

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
# define DATA_ENCODING 1u
#else
# define DATA_ENCODING 2u
#endif

#if __SIZEOF_POINTER__ == 8
# define ELF_CLASS 2u
typedef int64_t elf_sword;
typedef uint64_t elf_word;
#else
# define ELF_CLASS 1u
typedef int32_t elf_sword;
typedef uint32_t elf_word;
#endif

#if defined __x86_64__
# define ELF_MACHINE 62u
#elif defined __aarch64__
# define ELF_MACHINE 183u
#elif defined __arm__
# define ELF_MACHINE 40u
#elif defined __i386__
# define ELF_MACHINE 3u
#elif defined __riscv
# define ELF_MACHINE 243u
#elif defined __powerpc64__
# define ELF_MACHINE 21u
#elif defined __s390x__
# define ELF_MACHINE 22u
#else
# error "no system call header for this machine"
#endif

typedef struct
{
  elf_sword tag;
  elf_word value;
} elf_dyn;

#if __SIZEOF_POINTER__ == 8
typedef struct
{
  uint32_t name;
  unsigned char info, other;
  uint16_t section;
  uint64_t value, size;
} elf_sym;

typedef struct
{
  uint32_t type, flags;
  uint64_t offset, vaddr, paddr, filesz, memsz, align;
} elf_phdr;
#else
typedef struct
{
  uint32_t name, value, size;
  unsigned char info, other;
  uint16_t section;
} elf_sym;

typedef struct
{
  uint32_t type, offset, vaddr, paddr, filesz, memsz, flags, align;
} elf_phdr;
#endif

typedef struct
{
  unsigned char ident[16];
  uint16_t type, machine;
  uint32_t version;
  elf_word entry, phoff, shoff;
  uint32_t flags;
  uint16_t ehsize, phentsize, phnum, shentsize, shnum, shstrndx;
} elf_ehdr;

typedef struct
{
  elf_word type, value;
} elf_auxv;

#define PT_LOAD 1u
#define PT_DYNAMIC 2u

#define AUX_PHDR 3
#define AUX_PHNUM 5
#define AUX_BASE 7
#define AUX_EUID 12
#define AUX_SECURE 23
#define AUX_EXECFN 31
#define AUX_SYSINFO_EHDR 33

/* The program headers of an object. */
struct headers
{
  const elf_phdr *first;
  unsigned count;
};

struct link_map
{
  elf_word addr;
  const char *name;
  const elf_dyn *dynamic;
  struct link_map *next, *prev;
};

void *memcpy (void *to, const void *from, size_t n);
void *memset (void *to, int byte, size_t n);
int memcmp (const void *a, const void *b, size_t n);
size_t strlen (const char *s);

/* Writes the texts that follow one after the other, up to a NULL; returns 0 if they are too long. */
int concatenate (char *to, size_t size, ...) __attribute__ ((sentinel));

/* The answer of a search for a needed string along a list of directories. */
enum lookup
{
  /* No directory has the name. */
  LOOKUP_NOTHING,
  /* The first directory with the name is known: *path is the file. */
  LOOKUP_FOUND,
  /* The loader has to search. */
  LOOKUP_UNKNOWN,
};

/* Returns the text after NAME, NULL if TEXT does not begin with it. */
static inline const char *
text_after (const char *text, const char *name)
{
  while (*name != '\0' && *text == *name)
    text++, name++;
  return *name == '\0' ? text : NULL;
}

/* Returns the length of a text up to a byte, or to its end. */
static inline size_t
length_to (const char *text, char end)
{
  size_t length = 0;
  while (text[length] != '\0' && text[length] != end)
    length++;
  return length;
}

/* Returns the value of a variable, `NAME=value`, if it has this name; else NULL. */
static inline const char *
value_of (const char *variable, const char *name)
{
  variable = text_after (variable, name);
  return variable != NULL && *variable == '=' ? variable + 1 : NULL;
}

/* True if the first element of a list with commas is WORD. */
static inline int
is_word (const char *list, const char *word)
{
  list = text_after (list, word);
  return list != NULL && (*list == '\0' || *list == ',');
}

/* Returns a value of the auxiliary vector, 0 if it has none. */
static inline elf_word
auxiliary (const elf_auxv *aux, elf_word type)
{
  while (aux->type != 0 && aux->type != type)
    aux++;
  return aux->type == 0 ? 0 : aux->value;
}

/* Returns the first header of a type, NULL if there is none. */
static inline const elf_phdr *
header_of (struct headers headers, uint32_t type)
{
  for (unsigned i = 0; i < headers.count; i++)
    if (headers.first[i].type == type)
      return &headers.first[i];
  return NULL;
}

/* Returns the segment whose file part has SIZE bytes at an address of the file, NULL if there is none. */
static inline const elf_phdr *
segment_of (struct headers headers, elf_word at, elf_word size)
{
  for (unsigned i = 0; i < headers.count; i++)
    {
      const elf_phdr *load = &headers.first[i];
      if (load->type == PT_LOAD && at >= load->vaddr && at - load->vaddr <= load->filesz
          && size <= load->filesz - (at - load->vaddr))
        return load;
    }
  return NULL;
}

/* Returns the part of a path after its last slash. */
static inline const char *
file_name (const char *path)
{
  const char *name = path;
  for (; *path != '\0'; path++)
    if (*path == '/')
      name = path + 1;
  return name;
}

/* Returns the length of a path without the slashes at its end, but for that of the root directory. */
static inline size_t
without_slashes (const char *path, size_t length)
{
  while (length > 1 && path[length - 1] == '/')
    length--;
  return length;
}

/* Reads the digits at *AT, and moves it behind them. */
static inline uint64_t
read_decimal (const char **at)
{
  uint64_t number = 0;
  for (; **at >= '0' && **at <= '9'; ++*at)
    number = number * 10 + (uint64_t) (**at - '0');
  return number;
}

/* Returns the value of a hexadecimal digit, 16 for another character. */
static inline unsigned
digit (char c)
{
  if (c >= '0' && c <= '9')
    return (unsigned) (c - '0');
  c |= 0x20;
  return c >= 'a' && c <= 'f' ? (unsigned) (c - 'a') + 10 : 16;
}

/* Room for the digits of any number, with the zero at the end. */
#define DIGITS_SIZE 24

/* Writes a number to the end of a buffer and returns its first digit. Inlined: with a constant base no division is
   left, which is a call into libgcc on some machines. */
static inline __attribute__ ((always_inline)) const char *
number_of (unsigned long value, unsigned base, char buffer[DIGITS_SIZE])
{
  char *at = buffer + DIGITS_SIZE - 1;
  *at = '\0';
  do
    *--at = "0123456789abcdef"[value % base];
  while ((value /= base) != 0);
  return at;
}
#define digits_of(value, buffer) number_of (value, 10, buffer)
#define hexadecimal_of(value, buffer) number_of (value, 16, buffer)

/* Writes DIRECTORY/NAME; returns 0 if it does not fit. An empty directory is the current one. */
static inline int
join_path (char *to, size_t size, const char *directory, size_t length, const char *name)
{
  const size_t more = strlen (name) + 1;
  if (length + 1 + more > size)
    return 0;
  memcpy (to, directory, length);
  if (length > 1 || (length == 1 && *directory != '/'))
    to[length++] = '/';
  memcpy (to + length, name, more);
  return 1;
}

static inline int
text_equal (const char *a, const char *b)
{
  while (*a != '\0' && *a == *b)
    a++, b++;
  return *a == *b;
}

/* True if the first LENGTH bytes at TEXT are all of OTHER. */
static inline int
name_is (const char *text, size_t length, const char *other)
{
  return strlen (other) == length && memcmp (text, other, length) == 0;
}

static inline int
has_byte (const char *s, char byte)
{
  return s[length_to (s, byte)] != '\0';
}
