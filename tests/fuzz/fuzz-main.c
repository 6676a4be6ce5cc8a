/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fuzz/fuzz.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Runs a target without libFuzzer:
 *
 *   fuzz-NAME [-runs=N] [-seed=N] [-only=N] FILE...
 *
 * First each file as it is, then N of them changed here and there. A run depends on the seed, its own number and the
 * files alone: when one of them crashes, its number is told, and -only=NUMBER runs it again. So is the number of a run
 * that took much more memory than all before it. */

static guint64 run;

static void
tell (void)
{
  char text[] = "fuzz: in run 00000000000000000000\n";
  guint64 n = run;
  for (guint i = strlen (text) - 2; text[i] == '0'; i--, n /= 10)
    text[i] = (char) ('0' + n % 10);
  if (write (STDERR_FILENO, text, strlen (text)) < 0)
    return;
}

static void
on_signal (int number)
{
  tell ();
  signal (number, SIG_DFL);
  raise (number);
}

void __asan_on_error (void); /* called by the sanitizer */
void
__asan_on_error (void)
{
  tell ();
}

static gsize
below (GRand *random, gsize n)
{
  return n > 0 ? (gsize) (g_rand_double (random) * (double) n) : 0;
}

/* One change. Lengths and sizes are where readers go wrong, so numbers that are special are put in often. */
static void
change (GRand *random, GByteArray *bytes, GPtrArray *seeds)
{
  static const guint64 special[] = { 0,          1,           0x7f,       0x80,       0xff,       0x7fff,
                                     0xffff,     0x7fffffff,  0x80000000, 0xffffffff, 1ull << 47, 0x7fffffffffffffff,
                                     1ull << 63, G_MAXUINT64, 64,         1ull << 40 };
  static const char *const words[] = { "..", "/",  "-1",  "[[[[[[[[", "{\"a\":", "\"", "\\u0000", "1e999",
                                       "{}", "[]", "nan", "null",     "true",    ",",  ":",       "\xff" };
  gsize at = below (random, bytes->len);
  switch (g_rand_int_range (random, 0, 10))
    {
    case 0:
      if (bytes->len > 0)
        bytes->data[at] ^= (guint8) (1u << g_rand_int_range (random, 0, 8));
      break;
    case 1:
      if (bytes->len > 0)
        bytes->data[at] = (guint8) g_rand_int (random);
      break;
    case 2: /* a number over existing bytes */
    case 3:
      {
        guint64 value = special[below (random, G_N_ELEMENTS (special))] + below (random, 3) - 1;
        gsize n = (gsize) 1 << below (random, 4);
        n = MIN (n, bytes->len - at);
        if (n > 0)
          memcpy (bytes->data + at, &value, n);
      }
      break;
    case 4: /* bytes go */
      if (bytes->len > 0)
        g_byte_array_remove_range (bytes, (guint) at, (guint) (1 + below (random, MIN (16, bytes->len - at))));
      break;
    case 5: /* a part comes twice */
      {
        gsize n = 1 + below (random, 64);
        n = MIN (n, bytes->len - at);
        g_autofree guint8 *part = g_memdup2 (bytes->data + at, n);
        if (n > 0)
          g_byte_array_append (bytes, part, (guint) n);
      }
      break;
    case 6: /* a part moves over another one */
      {
        gsize to = below (random, bytes->len), n = below (random, 64);
        n = MIN (n, bytes->len - MAX (at, to));
        if (n > 0)
          memmove (bytes->data + to, bytes->data + at, n);
      }
      break;
    case 7: /* the rest of another file */
      {
        GBytes *other = seeds->pdata[below (random, seeds->len)];
        gsize n;
        const guint8 *data = g_bytes_get_data (other, &n);
        gsize from = below (random, n);
        g_byte_array_set_size (bytes, (guint) at);
        if (n > from)
          g_byte_array_append (bytes, data + from, (guint) (n - from));
      }
      break;
    case 8:
      if (g_rand_int_range (random, 0, 8) == 0)
        g_byte_array_set_size (bytes, (guint) at);
      break;
    default: /* a word goes in */
      {
        const char *word = words[below (random, G_N_ELEMENTS (words))];
        gsize n = strlen (word), old = bytes->len;
        g_byte_array_set_size (bytes, (guint) (old + n));
        memmove (bytes->data + at + n, bytes->data + at, old - at);
        memcpy (bytes->data + at, word, n);
      }
    }
}

static void
run_once (guint64 number, guint32 seed, GPtrArray *seeds)
{
  run = number;
  if (number < seeds->len)
    {
      gsize n;
      const guint8 *data = g_bytes_get_data (seeds->pdata[number], &n);
      LLVMFuzzerTestOneInput (data, n);
      return;
    }
  const guint32 key[] = { seed, (guint32) number, (guint32) (number >> 32) };
  g_autoptr (GRand) random = g_rand_new_with_seed_array (key, G_N_ELEMENTS (key));
  GBytes *from = seeds->pdata[below (random, seeds->len)];
  g_autoptr (GByteArray) bytes = g_byte_array_new ();
  gsize n;
  const guint8 *data = g_bytes_get_data (from, &n);
  g_byte_array_append (bytes, data, (guint) n);
  gint32 power = g_rand_int_range (random, -2, 5);
  for (guint i = 0; i < 1u << MAX (power, 0); i++)
    if (fuzz_change_message == NULL || g_rand_int_range (random, 0, 16) == 0 || !fuzz_change_message (random, bytes))
      change (random, bytes, seeds);
  /* exactly so many bytes on the heap, so that tools see a read past the end */
  g_autofree guint8 *exact = g_memdup2 (bytes->data, bytes->len);
  LLVMFuzzerTestOneInput (exact, bytes->len);
}

/* A run that takes much memory, and many that leak a little, look alike at the end. */
static void
tell_peak (void)
{
  static glong told;
  struct rusage usage;
  getrusage (RUSAGE_SELF, &usage);
  if (usage.ru_maxrss < told + MAX (told / 4, 64 * 1024))
    return;
  told = usage.ru_maxrss;
  g_printerr ("fuzz: peak of %ld MiB after run %" G_GUINT64_FORMAT "\n", told / 1024, run);
}

static int
compare (gconstpointer a, gconstpointer b)
{
  return strcmp (*(char *const *) a, *(char *const *) b);
}

int
main (int argc, char *argv[])
{
  g_autoptr (GPtrArray) seeds = g_ptr_array_new_with_free_func ((GDestroyNotify) g_bytes_unref);
  guint64 n_runs = 1000, only = G_MAXUINT64;
  guint32 seed = 1;
  LLVMFuzzerInitialize (&argc, &argv);
  qsort (argv + 1, (gsize) MAX (argc - 1, 0), sizeof *argv, compare);
  for (gint i = 1; i < argc; i++)
    {
      g_autoptr (GError) error = NULL;
      char *data;
      gsize n;
      if (g_str_has_prefix (argv[i], "-runs="))
        n_runs = g_ascii_strtoull (argv[i] + 6, NULL, 10);
      else if (g_str_has_prefix (argv[i], "-seed="))
        seed = (guint32) g_ascii_strtoull (argv[i] + 6, NULL, 10);
      else if (g_str_has_prefix (argv[i], "-only="))
        only = g_ascii_strtoull (argv[i] + 6, NULL, 10);
      else if (g_file_get_contents (argv[i], &data, &n, &error))
        g_ptr_array_add (seeds, g_bytes_new_take (data, n));
      else
        g_error ("%s", error->message);
    }
  if (seeds->len == 0)
    g_error ("no files to begin with");
  const int signals[] = { SIGSEGV, SIGBUS, SIGABRT, SIGTRAP, SIGFPE, SIGILL };
  for (guint i = 0; i < G_N_ELEMENTS (signals); i++)
    signal (signals[i], on_signal);
  if (only != G_MAXUINT64)
    run_once (only, seed, seeds);
  else
    for (guint64 i = 0; i < seeds->len + n_runs; i++)
      {
        run_once (i, seed, seeds);
        tell_peak ();
      }
  g_print ("%" G_GUINT64_FORMAT " runs, %u of them of whole files\n", seeds->len + n_runs, seeds->len);
  return 0;
}
