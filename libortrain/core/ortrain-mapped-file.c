/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-mapped-file-private.h"

#include "core/ortrain-errors.h"
#include "core/ortrain-text-file-private.h"
#include "core/ortrain-text-path-private.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SLOTS_PER_BLOCK 64
#define SAMPLE_BYTES 4096   /* of each end of a file */
#define MAX_DESCRIPTORS 256 /* kept open; a process may have 1024, most of which are not ours */

/* Where the mappings are. The signal handler reads this, so there are no locks: a slot is claimed by its file, valid
 * while `begin` is not 0, and blocks are never freed. */
typedef struct
{
  _Atomic (OrtrainMappedFile *) file;
  _Atomic gsize begin, end;
  _Atomic gboolean lost; /* zeros stand where the file was */
  _Atomic gboolean is_scratch;
} Slot;

typedef struct _Block Block;
struct _Block
{
  Slot slots[SLOTS_PER_BLOCK];
  _Atomic (Block *) next;
};

struct _OrtrainMappedFile
{
  gatomicrefcount ref_count;
  GMappedFile *mapping; /* NULL: a scratch file, which lies where its slot says */
  Slot *slot;
  char *name;
  int fd;             /* -1: too many are open; then the file is looked up by its path */
  char *path;         /* absolute; NULL: not known */
  struct stat mapped; /* as it was */
  guint64 sample;
  gboolean racy; /* see is_racy */
  gint changed;  /* atomic */
};

static Block first_block;
static struct sigaction previous_action;
static gsize page_size;
static gint n_descriptors; /* atomic */

static Slot *
find_slot (gsize address)
{
  for (Block *block = &first_block; block != NULL; block = atomic_load_explicit (&block->next, memory_order_acquire))
    for (guint i = 0; i < SLOTS_PER_BLOCK; i++)
      {
        Slot *slot = &block->slots[i];
        gsize begin = atomic_load_explicit (&slot->begin, memory_order_acquire);
        if (begin != 0 && address >= begin && address < atomic_load_explicit (&slot->end, memory_order_acquire) &&
            atomic_load_explicit (&slot->begin, memory_order_acquire) == begin)
          return slot;
      }
  return NULL;
}

/* ---- the signal ---- */

/* Zeros in the place of a whole mapping: one piece, so that a long file does not become thousands of them. */
static gboolean
replace_mapping (gsize address)
{
  Slot *slot = find_slot (address);
  if (slot == NULL)
    return FALSE;
  gsize begin = atomic_load (&slot->begin);
  gsize size = (atomic_load (&slot->end) - begin + page_size - 1) & ~(page_size - 1);
  atomic_store (&slot->lost, TRUE);
  const int protection = atomic_load (&slot->is_scratch) ? PROT_READ | PROT_WRITE : PROT_READ;
  return mmap ((gpointer) begin, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) !=
         MAP_FAILED;
}

static void
on_bus_error (int number, siginfo_t *info, void *context)
{
  int saved = errno;
  gboolean replaced = info->si_code == BUS_ADRERR && replace_mapping ((gsize) info->si_addr);
  errno = saved;
  if (replaced)
    return;
  if (previous_action.sa_flags & SA_SIGINFO)
    previous_action.sa_sigaction (number, info, context);
  else if (previous_action.sa_handler != SIG_DFL && previous_action.sa_handler != SIG_IGN)
    previous_action.sa_handler (number);
  else
    {
      /* as if we were not here: a fault comes again when this returns, a sent signal has to be sent again */
      signal (number, SIG_DFL);
      if (info->si_code <= 0)
        raise (number);
    }
}

/* oneDNN's matrix products point the stack register into their own buffers: a signal frame written there destroys the
 * heap. So the handler has a stack of its own, in every thread that runs kernels. */

static void
free_stack (gpointer stack)
{
  sigaltstack (&(stack_t){ .ss_flags = SS_DISABLE }, NULL);
  g_free (stack);
}

void
ortrain_mapped_file_guard_thread (void)
{
  static GPrivate stacks = G_PRIVATE_INIT (free_stack);
  static _Thread_local gboolean guarded;
  stack_t stack;
  if (G_LIKELY (guarded))
    return;
  guarded = TRUE;
  if (sigaltstack (NULL, &stack) != 0 || (stack.ss_flags & SS_DISABLE) == 0)
    return; /* the application's own */
  stack = (stack_t){ .ss_size = (gsize) MAX (sysconf (_SC_SIGSTKSZ), 0) + 65536 };
  stack.ss_sp = g_malloc (stack.ss_size);
  g_private_set (&stacks, stack.ss_sp);
  sigaltstack (&stack, NULL);
}

static void
install_handler (void)
{
  static gsize installed = 0;
  if (!g_once_init_enter (&installed))
    return;
  struct sigaction action = { .sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART };
  sigemptyset (&action.sa_mask);
  page_size = (gsize) sysconf (_SC_PAGESIZE);
  sigaction (SIGBUS, NULL, &previous_action); /* before ours can be called */
  sigaction (SIGBUS, &action, NULL);
  g_once_init_leave (&installed, 1);
}

/* ---- mappings ---- */

static Slot *
claim_slot (OrtrainMappedFile *file, gsize begin, gsize end)
{
  for (Block *block = &first_block;;)
    {
      for (guint i = 0; i < SLOTS_PER_BLOCK; i++)
        {
          OrtrainMappedFile *nobody = NULL;
          Slot *slot = &block->slots[i];
          if (!atomic_compare_exchange_strong (&slot->file, &nobody, file))
            continue;
          atomic_store (&slot->lost, FALSE);
          atomic_store (&slot->is_scratch, file->mapping == NULL);
          atomic_store (&slot->end, end);
          atomic_store_explicit (&slot->begin, begin, memory_order_release);
          return slot;
        }
      Block *next = atomic_load (&block->next);
      if (next == NULL)
        {
          Block *fresh = g_new0 (Block, 1);
          if (atomic_compare_exchange_strong (&block->next, &next, fresh))
            next = fresh;
          else
            g_free (fresh);
        }
      block = next;
    }
}

static void
release_slot (Slot *slot)
{
  atomic_store_explicit (&slot->begin, 0, memory_order_release);
  atomic_store_explicit (&slot->end, 0, memory_order_release);
  atomic_store_explicit (&slot->file, NULL, memory_order_release);
}

/* A file system's clock ticks some hundred times a second: two writes within a tick leave the same time. Of a file that
 * was written in this very tick, every check compares the contents, if the sample is all of them; else one more tick is
 * waited for, so that every later write is seen. */
static gboolean
is_racy (const struct stat *st)
{
  struct timespec now;
  for (guint i = 0; i < 50; i++)
    {
      if (clock_gettime (CLOCK_REALTIME_COARSE, &now) != 0 || now.tv_sec != st->st_mtim.tv_sec ||
          now.tv_nsec != st->st_mtim.tv_nsec)
        return FALSE;
      if (st->st_size <= 2 * SAMPLE_BYTES)
        break;
      g_usleep (500);
    }
  return TRUE;
}

/* Read from the file, not from the mapping, which may show other contents on a network file system. */
static guint64
take_sample (int fd, gint64 size)
{
  guint64 hash = G_GUINT64_CONSTANT (0xcbf29ce484222325); /* FNV-1a */
  const gint64 at[] = { 0, MAX (size - SAMPLE_BYTES, 0) };
  for (guint k = 0; k < G_N_ELEMENTS (at); k++)
    {
      guint8 bytes[SAMPLE_BYTES];
      gssize n;
      do
        n = pread (fd, bytes, sizeof bytes, at[k]);
      while (n < 0 && errno == EINTR);
      for (gssize i = 0; i < n; i++)
        hash = (hash ^ bytes[i]) * G_GUINT64_CONSTANT (0x100000001b3);
    }
  return hash;
}

/* The state of an open file now. */
static char *
find_path (int fd)
{
  g_autofree char *link = g_strdup_printf ("/proc/self/fd/%d", fd);
  return g_file_read_link (link, NULL);
}

static void
keep_open (OrtrainMappedFile *self, int fd)
{
  self->path = find_path (fd);
  self->fd = -1;
  if (g_atomic_int_add (&n_descriptors, 1) < MAX_DESCRIPTORS)
    self->fd = fcntl (fd, F_DUPFD_CLOEXEC, 3);
  if (self->fd < 0)
    g_atomic_int_add (&n_descriptors, -1);
}

GBytes *
ortrain_mapped_file_new_bytes (int fd, const char *name, GError **error)
{
  struct stat st;
  install_handler ();
  g_autoptr (GMappedFile) mapping = g_mapped_file_new_from_fd (fd, FALSE, error);
  if (mapping == NULL)
    return NULL;
  gsize size = g_mapped_file_get_length (mapping);
  if (size == 0)
    return g_mapped_file_get_bytes (mapping);
  if (fstat (fd, &st) != 0)
    {
      int code = errno;
      g_set_error (error, G_IO_ERROR, g_io_error_from_errno (code), "Cannot get its size: %s", g_strerror (code));
      return NULL;
    }
  gboolean racy = is_racy (&st);
  OrtrainMappedFile *self = g_new0 (OrtrainMappedFile, 1);
  g_atomic_ref_count_init (&self->ref_count);
  self->mapping = g_steal_pointer (&mapping);
  self->name = g_strdup (ortrain_text_show_path (name));
  self->mapped = st;
  self->mapped.st_size = (off_t) size; /* a change between the two is a change */
  self->sample = take_sample (fd, self->mapped.st_size);
  self->racy = racy;
  keep_open (self, fd);
  gconstpointer data = g_mapped_file_get_contents (self->mapping);
  self->slot = claim_slot (self, (gsize) data, (gsize) data + size);
  return g_bytes_new_with_free_func (data, size, (GDestroyNotify) ortrain_mapped_file_unref, self);
}

#define MAX_PIPE_BYTES ((gsize) 1 << 30)

/* The contents of a pipe are kept in memory. */
static GBytes *
read_pipe (int fd, GError **error)
{
  gsize size;
  char *data = ortrain_text_file_read_fd (fd, MAX_PIPE_BYTES, &size);
  const int code = errno;
  if (data != NULL)
    return g_bytes_new_take (data, size);
  if (code == EFBIG)
    g_set_error_literal (error, G_IO_ERROR, G_IO_ERROR_NO_SPACE,
                         "The pipe has more than 1 GiB of data; write it to a file first");
  else
    g_set_error (error, G_IO_ERROR, g_io_error_from_errno (code), "Cannot read it: %s", g_strerror (code));
  return NULL;
}

GBytes *
ortrain_mapped_file_open (const char *path, GError **error)
{
  /* O_NONBLOCK: a pipe in the place of a file must not hold us up */
  int fd = open (path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd < 0)
    {
      int code = errno;
      const char *shown = ortrain_text_show_path (path);
      g_set_error (error, G_FILE_ERROR, g_file_error_from_errno (code), "Cannot open '%s': %s", shown,
                   g_strerror (code));
      return NULL;
    }
  struct stat st = { 0 };
  const gboolean is_pipe = fstat (fd, &st) == 0 && (S_ISFIFO (st.st_mode) || S_ISSOCK (st.st_mode));
  GBytes *bytes = NULL;
  if (S_ISCHR (st.st_mode) || S_ISBLK (st.st_mode))
    g_set_error_literal (error, G_FILE_ERROR, G_FILE_ERROR_INVAL, "It is a device, not a file");
  else
    bytes = is_pipe ? read_pipe (fd, error) : ortrain_mapped_file_new_bytes (fd, path, error);
  close (fd);
  if (bytes == NULL)
    g_prefix_error (error, "%s: ", ortrain_text_show_path (path));
  return bytes;
}

/* ---- scratch files ---- */

/* A file without a name. Not every file system can create one; then it has one for a moment. */
static int
open_scratch (const char *folder)
{
#ifdef O_TMPFILE
  const int fd = open (folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL))
    return fd;
#endif
  g_autofree char *path = g_build_filename (folder, "ortrain-XXXXXX", NULL);
  const int named = g_mkstemp_full (path, O_RDWR | O_CLOEXEC, 0600);
  if (named >= 0)
    unlink (path);
  return named;
}

/* All blocks are reserved: writing to the mapping later needs no more of the disk. */
static gpointer
map_scratch (int fd, gsize n_bytes)
{
  if (fd < 0)
    return MAP_FAILED;
  int code;
  do
    code = posix_fallocate (fd, 0, (off_t) n_bytes);
  while (code == EINTR);
  gpointer address = code == 0 ? mmap (NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
  code = code != 0 ? code : errno;
  close (fd);
  errno = code;
  return address;
}

OrtrainMappedFile *
ortrain_mapped_file_new_scratch (const char *folder, gsize n_bytes, gpointer *address, GError **error)
{
  install_handler ();
  *address = map_scratch (open_scratch (folder), n_bytes);
  if (*address == MAP_FAILED)
    {
      const int code = errno;
      const char *shown = ortrain_text_show_path (folder);
      g_set_error (error, G_IO_ERROR, g_io_error_from_errno (code),
                   "Cannot create a file of %" G_GSIZE_FORMAT " bytes in '%s': %s", n_bytes, shown, g_strerror (code));
      *address = NULL;
      return NULL;
    }
  OrtrainMappedFile *self = g_new0 (OrtrainMappedFile, 1);
  g_atomic_ref_count_init (&self->ref_count);
  self->fd = -1;
  self->name = g_strdup (ortrain_text_show_path (folder));
  self->slot = claim_slot (self, (gsize) *address, (gsize) *address + n_bytes);
  return self;
}

gboolean
ortrain_mapped_file_check_scratch (OrtrainMappedFile *self, GError **error)
{
  if (!atomic_load (&self->slot->lost))
    return TRUE;
  g_set_error (error, G_IO_ERROR, G_IO_ERROR_FAILED,
               "A file in '%s' could not be read or written; the values computed from it are lost", self->name);
  return FALSE;
}

OrtrainMappedFile *
ortrain_mapped_file_find (gconstpointer address)
{
  Slot *slot = find_slot ((gsize) address);
  return slot != NULL ? atomic_load_explicit (&slot->file, memory_order_acquire) : NULL;
}

void
ortrain_mapped_file_trim (gconstpointer address, gsize n_bytes)
{
  Slot *slot = find_slot ((gsize) address);
  if (slot == NULL)
    return;
  const gsize begin = (gsize) address, last = atomic_load_explicit (&slot->end, memory_order_acquire);
  const gsize end = begin + MIN (n_bytes, last - begin);
  /* whole pages; the last one of the mapping is ours as well */
  const gsize from = (begin + page_size - 1) & ~(page_size - 1);
  const gsize to = (end == last ? end + page_size - 1 : end) & ~(page_size - 1);
  if (to > from)
    madvise ((gpointer) from, to - from, MADV_DONTNEED);
}

OrtrainMappedFile *
ortrain_mapped_file_ref (OrtrainMappedFile *self)
{
  g_atomic_ref_count_inc (&self->ref_count);
  return self;
}

void
ortrain_mapped_file_unref (OrtrainMappedFile *self)
{
  if (!g_atomic_ref_count_dec (&self->ref_count))
    return;
  const gsize begin = atomic_load (&self->slot->begin), end = atomic_load (&self->slot->end);
  release_slot (self->slot);
  if (self->mapping != NULL)
    g_mapped_file_unref (self->mapping);
  else
    munmap ((gpointer) begin, end - begin);
  if (self->fd >= 0)
    {
      close (self->fd);
      g_atomic_int_add (&n_descriptors, -1);
    }
  g_free (self->path);
  g_free (self->name);
  g_free (self);
}

/* ---- checks ---- */

/* By path, a file that has gone or was replaced is as good as unchanged: others can no longer find it either. */
static gboolean
look (OrtrainMappedFile *self, struct stat *st)
{
  if (self->fd >= 0)
    return fstat (self->fd, st) == 0;
  if (self->path == NULL || stat (self->path, st) != 0 || st->st_dev != self->mapped.st_dev ||
      st->st_ino != self->mapped.st_ino)
    *st = self->mapped;
  return TRUE;
}

/* Whether the times say that the contents were written to. A program that writes can set the modification
 * time back, but not the status change time, which also changes with names, links, owners and permissions. */
static gboolean
is_written (OrtrainMappedFile *self, const struct stat *st)
{
  const struct stat *before = &self->mapped;
  if (st->st_mtim.tv_sec != before->st_mtim.tv_sec || st->st_mtim.tv_nsec != before->st_mtim.tv_nsec)
    return TRUE;
  if ((st->st_ctim.tv_sec == before->st_ctim.tv_sec && st->st_ctim.tv_nsec == before->st_ctim.tv_nsec) ||
      st->st_nlink != before->st_nlink || st->st_mode != before->st_mode || st->st_uid != before->st_uid ||
      st->st_gid != before->st_gid)
    return FALSE;
  g_autofree char *path = self->fd >= 0 ? find_path (self->fd) : g_strdup (self->path);
  return g_strcmp0 (path, self->path) == 0;
}

static gboolean
check (OrtrainMappedFile *self, gboolean contents, GError **error)
{
  struct stat st;
  g_autofree char *what = NULL;
  if (!look (self, &st))
    {
      int code = errno;
      g_set_error (error, G_IO_ERROR, g_io_error_from_errno (code), "Cannot get the size of '%s': %s", self->name,
                   g_strerror (code));
      return FALSE;
    }
  if (st.st_size != self->mapped.st_size)
    what = g_strdup_printf ("it had %" G_GINT64_FORMAT " bytes, and has %" G_GINT64_FORMAT " now",
                            (gint64) self->mapped.st_size, (gint64) st.st_size);
  else if (is_written (self, &st) || g_atomic_int_get (&self->changed))
    what = g_strdup ("it was written to");
  else if (atomic_load (&self->slot->lost))
    what = g_strdup ("a part of it could not be read");
  else if ((contents || self->racy) && self->fd >= 0 && take_sample (self->fd, self->mapped.st_size) != self->sample)
    what = g_strdup ("its contents are others");
  if (what == NULL)
    return TRUE;
  g_atomic_int_set (&self->changed, TRUE);
  g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_CHANGED,
               "'%s' was changed while it was in use: %s; open it again", self->name, what);
  return FALSE;
}

gboolean
ortrain_mapped_file_check (OrtrainMappedFile *self, GError **error)
{
  return check (self, FALSE, error);
}

gboolean
ortrain_mapped_file_check_contents (OrtrainMappedFile *self, GError **error)
{
  return check (self, TRUE, error);
}

void
ortrain_mapped_sources_add (OrtrainMappedSources *self, gconstpointer address)
{
  OrtrainMappedFile *file = ortrain_mapped_file_find (address);
  if (file == NULL || (self->files != NULL && g_ptr_array_find (self->files, file, NULL)))
    return;
  if (self->files == NULL)
    self->files = g_ptr_array_new_with_free_func ((GDestroyNotify) ortrain_mapped_file_unref);
  g_ptr_array_add (self->files, ortrain_mapped_file_ref (file));
}

gboolean
ortrain_mapped_sources_check (const OrtrainMappedSources *self, GError **error)
{
  for (guint i = 0; self->files != NULL && i < self->files->len; i++)
    if (!ortrain_mapped_file_check_contents (self->files->pdata[i], error))
      return FALSE;
  return TRUE;
}

void
ortrain_mapped_sources_clear (OrtrainMappedSources *self)
{
  g_clear_pointer (&self->files, g_ptr_array_unref);
}
