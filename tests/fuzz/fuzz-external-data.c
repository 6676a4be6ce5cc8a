/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fuzz/fuzz.h"

#include "model/ortrain-model-private.h"
#include "model/ortrain-proto-maker.h"
#include "tensor/ortrain-tensor-private.h"

#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The bytes are up to eight pairs of key and value, each ended by a zero byte: the external data of one tensor. Next to
 * the model there is a good file, and every way out of its folder: to a file that must never be read. */

#define SECRET 0x5ec2e75ec2e75ec2ull

static const char *
make_folder (void)
{
  static char *base;
  guint64 good[64], secret[64];
  if (base != NULL)
    return base;
  g_autofree char *root = g_dir_make_tmp ("ortrain-fuzz-XXXXXX", NULL);
  FUZZ_CHECK (root != NULL);
  for (guint i = 0; i < G_N_ELEMENTS (good); i++)
    {
      good[i] = i;
      secret[i] = SECRET;
    }
  g_autofree char *outside = g_build_filename (root, "secret", NULL), *folder = g_build_filename (root, "base", NULL);
  g_autofree char *inner = g_build_filename (folder, "sub", NULL), *file = g_build_filename (inner, "w", NULL),
                  *other = g_build_filename (folder, "w", NULL);
  FUZZ_CHECK (g_mkdir_with_parents (inner, 0700) == 0);
  FUZZ_CHECK (g_file_set_contents (outside, (const char *) secret, sizeof secret, NULL));
  FUZZ_CHECK (g_file_set_contents (file, (const char *) good, sizeof good, NULL));
  FUZZ_CHECK (g_file_set_contents (other, (const char *) good, sizeof good, NULL));
  const struct
  {
    const char *name, *to;
  } links[] = { { "l", "../secret" }, { "d", ".." }, { "sub/u", "../../secret" }, { "a", outside }, { "r", "/" } };
  for (guint i = 0; i < G_N_ELEMENTS (links); i++)
    {
      g_autofree char *name = g_build_filename (folder, links[i].name, NULL);
      FUZZ_CHECK (symlink (links[i].to, name) == 0);
    }
  g_autofree char *hard = g_build_filename (folder, "h", NULL), *fifo = g_build_filename (folder, "f", NULL);
  FUZZ_CHECK (link (outside, hard) == 0);
  FUZZ_CHECK (mkfifo (fifo, 0600) == 0);
  base = g_steal_pointer (&folder);
  return base;
}

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  g_autoptr (GError) error = NULL;
  const guint8 *end = data + size;
  Proto *tensor = proto_tensor ("t", 7, (const gint64[]){ 4, -1 }, NULL, 0), *graph = proto_new ();
  for (guint pair = 0; pair < 8 && data < end; pair++)
    {
      Proto *entry = proto_new ();
      for (guint field = 1; field <= 2 && data < end; field++)
        {
          const guint8 *zero = memchr (data, 0, (gsize) (end - data));
          gsize n = zero != NULL ? (gsize) (zero - data) : (gsize) (end - data);
          proto_bytes (entry, field, data, n);
          data += MIN (n + 1, (gsize) (end - data));
        }
      proto_message (tensor, 13, entry);
    }
  proto_int (tensor, 14, 1);
  proto_message (graph, 5, tensor);
  g_autoptr (GBytes) bytes = proto_model (graph, 8, 17);
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_bytes (bytes, make_folder (), &error);
  fuzz_check_error (model != NULL, error);
  if (model == NULL)
    return 0;
  OrtrainTensor *contents = ortrain_graph_find_value (ortrain_model_get_file_graph (model), "t")->tensor;
  const guint64 *numbers = ortrain_tensor_peek (contents);
  FUZZ_CHECK (ortrain_tensor_get_n_bytes (contents) == 32);
  for (guint i = 0; i < 4; i++)
    FUZZ_CHECK (numbers[i] != SECRET);
  FUZZ_CHECK (ortrain_model_export (model, fuzz_scratch (), NULL, &error));
  return 0;
}
