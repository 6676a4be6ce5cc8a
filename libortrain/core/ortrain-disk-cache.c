/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-disk-cache-private.h"

#include "core/ortrain-version-functions.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file: MAGIC, the name (SHA-256 of the key), the length of the contents (8 bytes, little-endian), the contents, and
 * the SHA-256 of all before it. */

#define MAGIC "ORTcach1" /* the last character is the version of the format */
#define SUM_BYTES 32
#define HEAD_BYTES (8 + SUM_BYTES + 8)
#define MAX_CONTENTS ((gsize) 8 << 20)
#define MAX_TOTAL ((guint64) 64 << 20)
#define TRIM_BYTES ((guint64) 1 << 20) /* that a process stores before it looks again whether there is room */
#define BLOCK_BYTES ((guint64) 4096)   /* of a file system: the least that a file takes */
#define SUFFIX ".ortrain"
#define PART_SUFFIX ".part" /* being written */
#define MAX_PART_SECONDS 3600

static gint n_hits, n_misses, n_stored;
static gint n_unchecked = TRIM_BYTES / BLOCK_BYTES; /* blocks since the last look; the first entry is one in any case */

/* ---- Keys ---- */

typedef struct
{
  guintptr address; /* in the wanted object */
  guint8 id[64];
  gsize n;
} BuildId;

static gboolean
contains (const struct dl_phdr_info *object, guintptr address)
{
  for (guint i = 0; i < object->dlpi_phnum; i++)
    {
      const guintptr start = object->dlpi_addr + object->dlpi_phdr[i].p_vaddr;
      if (object->dlpi_phdr[i].p_type == PT_LOAD && address >= start && address - start < object->dlpi_phdr[i].p_memsz)
        return TRUE;
    }
  return FALSE;
}

/* The linker's note, "GNU". */
static int
find_build_id (struct dl_phdr_info *object, gsize n_bytes, gpointer data)
{
  BuildId *self = data;
  if (!contains (object, self->address))
    return 0;
  for (guint i = 0; i < object->dlpi_phnum; i++)
    {
      const ElfW (Phdr) *header = &object->dlpi_phdr[i];
      const guint8 *at = (const guint8 *) (object->dlpi_addr + header->p_vaddr), *end = at + header->p_memsz;
      ElfW (Nhdr) note;
      if (header->p_type != PT_NOTE || header->p_align > 4)
        continue;
      for (; end - at >= (gssize) sizeof note;
           at += sizeof note + (note.n_namesz + 3u) / 4 * 4 + (note.n_descsz + 3u) / 4 * 4)
        {
          memcpy (&note, at, sizeof note);
          if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && memcmp (at + sizeof note, "GNU", 4) == 0)
            {
              self->n = MIN (note.n_descsz, sizeof self->id);
              memcpy (self->id, at + sizeof note + 4, self->n);
              return 1;
            }
        }
    }
  return 1;
}

/* The build id of this library: two builds of one version may compute different things. Without a build id, the version
 * must do. */
static const BuildId *
get_build_id (void)
{
  static BuildId id;
  static gsize known;
  if (g_once_init_enter (&known))
    {
      id.address = (guintptr) &n_hits;
      dl_iterate_phdr (find_build_id, &id);
      g_once_init_leave (&known, 1);
    }
  return &id;
}

static void
add_bytes (GChecksum *sum, gconstpointer bytes, gsize n)
{
  const guint64 length = GUINT64_TO_LE ((guint64) n);
  g_checksum_update (sum, (const guchar *) &length, sizeof length);
  for (gsize done = 0; done < n;)
    {
      const gsize part = MIN (n - done, (gsize) 1 << 30);
      g_checksum_update (sum, (const guchar *) bytes + done, (gssize) part);
      done += part;
    }
}

static void
take_sum (GChecksum *sum, guint8 *digest)
{
  gsize n = SUM_BYTES;
  g_checksum_get_digest (sum, digest, &n);
  g_checksum_free (sum);
}

static void
make_digest (const char *kind, gconstpointer key, gsize n_key, guint8 *digest)
{
  GChecksum *sum = g_checksum_new (G_CHECKSUM_SHA256);
  const BuildId *build = get_build_id ();
  add_bytes (sum, MAGIC, strlen (MAGIC));
  add_bytes (sum, ORTRAIN_VERSION_STRING, strlen (ORTRAIN_VERSION_STRING));
  add_bytes (sum, build->id, build->n);
  add_bytes (sum, kind, strlen (kind));
  add_bytes (sum, key, n_key);
  take_sum (sum, digest);
}

static char *
make_name (const guint8 *digest)
{
  GString *name = g_string_new (NULL);
  for (guint i = 0; i < SUM_BYTES; i++)
    g_string_append_printf (name, "%02x", digest[i]);
  return g_string_free (g_string_append (name, SUFFIX), FALSE);
}

/* ---- The folder ---- */

/* NULL: switched off. */
static char *
get_folder (void)
{
  static const char *const off[] = { "off", "0", "no", "false", NULL };
  static const char *const on[] = { "", "on", "1", "yes", "true", NULL };
  const char *wanted = g_getenv ("ORTRAIN_CACHE");
  if (wanted != NULL && g_strv_contains (off, wanted))
    return NULL;
  if (wanted == NULL || g_strv_contains (on, wanted))
    return g_build_filename (g_get_user_cache_dir (), "ortrain", NULL);
  return g_strdup (wanted);
}

/* -1: the folder cannot be opened, or somebody else could have put entries into it. */
static int
open_folder (gboolean creates)
{
  g_autofree char *path = get_folder ();
  struct stat st;
  if (path == NULL || (creates && g_mkdir_with_parents (path, 0700) != 0))
    return -1;
  const int folder = open (path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder >= 0 && fstat (folder, &st) == 0 && st.st_uid == geteuid () && (st.st_mode & S_IWOTH) == 0)
    return folder;
  if (folder >= 0)
    close (folder);
  return -1;
}

/* Whether a file of the folder is one of the cache: nothing else there is touched. */
static gboolean
is_entry (const char *name, gboolean *is_part)
{
  guint n = 0;
  while (g_ascii_isxdigit (name[n]))
    n++;
  *is_part = g_str_has_suffix (name, PART_SUFFIX);
  return n == 2 * SUM_BYTES && g_str_has_prefix (name + n, SUFFIX) && (*is_part || name[n + strlen (SUFFIX)] == '\0');
}

static guint64
count_blocks (guint64 n_bytes)
{
  return n_bytes / BLOCK_BYTES + (n_bytes % BLOCK_BYTES != 0);
}

typedef struct
{
  char *name;
  guint64 bytes;
  struct timespec used;
} Entry;

static void
clear_entry (gpointer data)
{
  g_free (((Entry *) data)->name);
}

static gint
compare_use (gconstpointer a, gconstpointer b)
{
  const Entry *first = a, *second = b;
  if (first->used.tv_sec != second->used.tv_sec)
    return first->used.tv_sec < second->used.tv_sec ? -1 : 1;
  if (first->used.tv_nsec != second->used.tv_nsec)
    return first->used.tv_nsec < second->used.tv_nsec ? -1 : 1;
  return strcmp (first->name, second->name);
}

/* Frees space for entries until the next call, and removes temporary files of processes that ended too early. */
static void
trim (int folder)
{
  const int copy = openat (folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *dir = copy >= 0 ? fdopendir (copy) : NULL;
  g_autoptr (GArray) entries = g_array_new (FALSE, FALSE, sizeof (Entry));
  const gint64 now = g_get_real_time () / G_USEC_PER_SEC;
  guint64 total = 0;
  const struct dirent *found;
  if (dir == NULL)
    {
      if (copy >= 0)
        close (copy);
      return;
    }
  g_array_set_clear_func (entries, clear_entry);
  while ((found = readdir (dir)) != NULL)
    {
      gboolean is_part;
      struct stat st;
      if (!is_entry (found->d_name, &is_part) || fstatat (folder, found->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
          !S_ISREG (st.st_mode))
        continue;
      if (is_part && now - st.st_mtim.tv_sec > MAX_PART_SECONDS)
        unlinkat (folder, found->d_name, 0);
      if (is_part)
        continue;
      const Entry entry = { g_strdup (found->d_name), count_blocks ((guint64) st.st_size) * BLOCK_BYTES, st.st_mtim };
      g_array_append_val (entries, entry);
      total += entry.bytes;
    }
  closedir (dir);
  if (total <= MAX_TOTAL - TRIM_BYTES)
    return;
  g_array_sort (entries, compare_use);
  for (guint i = 0; i < entries->len && total > MAX_TOTAL - TRIM_BYTES; i++)
    {
      const Entry *entry = &g_array_index (entries, Entry, i);
      unlinkat (folder, entry->name, 0);
      total -= entry->bytes;
    }
}

/* ---- Entries ---- */

static gboolean
read_all (int file, guint8 *to, gsize n)
{
  while (n > 0)
    {
      const gssize part = read (file, to, n);
      if (part < 0 && errno == EINTR)
        continue;
      if (part <= 0)
        return FALSE;
      to += part;
      n -= (gsize) part;
    }
  return TRUE;
}

static gboolean
write_all (int file, const guint8 *from, gsize n)
{
  while (n > 0)
    {
      const gssize part = write (file, from, n);
      if (part < 0 && errno == EINTR)
        continue;
      if (part <= 0)
        return FALSE;
      from += part;
      n -= (gsize) part;
    }
  return TRUE;
}

static void
make_head (guint8 *head, const guint8 *digest, gsize n_contents)
{
  const guint64 length = GUINT64_TO_LE ((guint64) n_contents);
  memcpy (head, MAGIC, 8);
  memcpy (head + 8, digest, SUM_BYTES);
  memcpy (head + 8 + SUM_BYTES, &length, sizeof length);
}

static GBytes *
read_entry (int file, const guint8 *digest)
{
  struct stat st;
  if (fstat (file, &st) != 0 || !S_ISREG (st.st_mode) || st.st_uid != geteuid () || (st.st_mode & S_IWOTH) != 0 ||
      st.st_size < (goffset) (HEAD_BYTES + SUM_BYTES) || st.st_size > (goffset) (HEAD_BYTES + SUM_BYTES + MAX_CONTENTS))
    return NULL;
  const gsize n = (gsize) st.st_size, n_contents = n - HEAD_BYTES - SUM_BYTES;
  guint8 head[HEAD_BYTES], sum[SUM_BYTES];
  g_autofree guint8 *bytes = g_try_malloc (n);
  if (bytes == NULL || !read_all (file, bytes, n))
    return NULL;
  make_head (head, digest, n_contents);
  GChecksum *checksum = g_checksum_new (G_CHECKSUM_SHA256);
  g_checksum_update (checksum, bytes, (gssize) (n - SUM_BYTES));
  take_sum (checksum, sum);
  if (memcmp (bytes, head, HEAD_BYTES) != 0 || memcmp (bytes + n - SUM_BYTES, sum, SUM_BYTES) != 0)
    return NULL;
  return g_bytes_new (bytes + HEAD_BYTES, n_contents);
}

GBytes *
ortrain_disk_cache_lookup (const char *kind, gconstpointer key, gsize n_key)
{
  guint8 digest[SUM_BYTES];
  const int folder = open_folder (FALSE);
  GBytes *found = NULL;
  if (folder >= 0)
    {
      make_digest (kind, key, n_key, digest);
      g_autofree char *name = make_name (digest);
      /* a pipe does not make it wait */
      const int file = openat (folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
      if (file >= 0)
        {
          found = read_entry (file, digest);
          if (found != NULL)
            futimens (file, NULL);
          close (file);
        }
      close (folder);
    }
  g_atomic_int_inc (found != NULL ? &n_hits : &n_misses);
  return found;
}

/* Under another name first, so that no process reads half of it. It is not synced to the disk: an entry that is damaged
 * by a power failure fails its checksum, and is computed again. */
static gboolean
write_entry (int folder, const guint8 *digest, GBytes *contents)
{
  gsize n;
  const guint8 *bytes = g_bytes_get_data (contents, &n);
  guint8 head[HEAD_BYTES], sum[SUM_BYTES];
  g_autofree char *name = make_name (digest);
  g_autofree char *part = g_strdup_printf ("%s.%08x" PART_SUFFIX, name, g_random_int ());
  const int file = openat (folder, part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0)
    return FALSE;
  make_head (head, digest, n);
  GChecksum *checksum = g_checksum_new (G_CHECKSUM_SHA256);
  g_checksum_update (checksum, head, HEAD_BYTES);
  g_checksum_update (checksum, bytes, (gssize) n);
  take_sum (checksum, sum);
  gboolean ok = write_all (file, head, HEAD_BYTES) && write_all (file, bytes, n) && write_all (file, sum, SUM_BYTES);
  ok = close (file) == 0 && ok && renameat (folder, part, folder, name) == 0;
  if (!ok)
    unlinkat (folder, part, 0);
  return ok;
}

void
ortrain_disk_cache_store (const char *kind, gconstpointer key, gsize n_key, GBytes *contents)
{
  guint8 digest[SUM_BYTES];
  const int folder = g_bytes_get_size (contents) <= MAX_CONTENTS ? open_folder (TRUE) : -1;
  if (folder < 0)
    return;
  make_digest (kind, key, n_key, digest);
  if (write_entry (folder, digest, contents))
    {
      const gint n_blocks = (gint) count_blocks (g_bytes_get_size (contents) + HEAD_BYTES + SUM_BYTES);
      g_atomic_int_inc (&n_stored);
      if (g_atomic_int_add (&n_unchecked, n_blocks) + n_blocks >= (gint) (TRIM_BYTES / BLOCK_BYTES))
        {
          g_atomic_int_set (&n_unchecked, 0);
          trim (folder);
        }
    }
  close (folder);
}

OrtrainDiskCacheCounts
ortrain_disk_cache_get_counts (void)
{
  return (OrtrainDiskCacheCounts){ (guint) g_atomic_int_get (&n_hits), (guint) g_atomic_int_get (&n_misses),
                                   (guint) g_atomic_int_get (&n_stored) };
}
