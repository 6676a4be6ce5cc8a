/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>
#include <stdlib.h>

/* Called by libFuzzer, or by fuzz-main.c without it. Any bytes are good input or an error; anything else traps.
 * Configure with clang, -Dfuzz=true, -Db_sanitize=address,undefined, -Db_lundef=false and
 * -Dc_args=-fsanitize=fuzzer-no-link; run
 *
 *   tests/fuzz-NAME -max_len=8192 -rss_limit_mb=4096 CORPUS ../tests/data/fuzz/NAME */
int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);
int LLVMFuzzerInitialize (int *argc, char ***argv); /* before all runs */

/* Where bytes are a protocol buffer (fuzz-proto.c): a change that leaves it one. FALSE: it was none. */
gboolean fuzz_change_message (GRand *random, GByteArray *bytes) __attribute__ ((weak));

/* Aborts, so that libFuzzer keeps the input. */
#define FUZZ_CHECK(condition)                                                                                          \
  G_STMT_START                                                                                                         \
  {                                                                                                                    \
    if (!(condition))                                                                                                  \
      {                                                                                                                \
        g_printerr ("%s:%d: %s\n", __FILE__, __LINE__, #condition);                                                    \
        abort ();                                                                                                      \
      }                                                                                                                \
  }                                                                                                                    \
  G_STMT_END

/* A result or an error with a message that can be shown. */
static inline void
fuzz_check_error (gboolean ok, GError *error)
{
  FUZZ_CHECK (ok == (error == NULL));
  FUZZ_CHECK (error == NULL || (*error->message != '\0' && g_utf8_validate (error->message, -1, NULL)));
}

/* The contents as a file without a name, at a path that it keeps; so that nothing is written to a disk. */
const char *fuzz_make_file (const guint8 *data, gsize size);

/* A path to write to, in memory where the system has a place for that. */
const char *fuzz_scratch (void);
