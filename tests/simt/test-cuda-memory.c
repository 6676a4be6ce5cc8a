/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "simt/fake-cuda.h"

#include "provider/ortrain-provider-private.h"

#include <string.h>

/* Memory that the provider gives is clear before anything of its streams can use it. */

#define N_BLOCKS 64
#define N_BYTES ((gsize) 1 << 16)

typedef struct
{
  OrtrainProvider *provider;
  OrtrainStream *stream;
  guint8 *host, *found; /* page-locked, [N_BYTES] */
} Fixture;

static guint8 *
allocate (const Fixture *self, OrtrainMemorySpace space, gsize n_bytes)
{
  g_autoptr (GError) error = NULL;
  guint8 *address = self->provider->klass->allocate (self->provider, space, n_bytes, &error);
  g_assert_no_error (error);
  return address;
}

static void
copy (const Fixture *self, gpointer to, gconstpointer from, gsize n_bytes)
{
  g_autoptr (GError) error = NULL;
  self->provider->klass->copy (self->provider, self->stream, to, from, n_bytes, &error);
  g_assert_no_error (error);
}

static void
wait (const Fixture *self)
{
  g_autoptr (GError) error = NULL;
  self->provider->klass->wait (self->provider, self->stream, &error);
  g_assert_no_error (error);
}

static void
open_device (Fixture *self)
{
  const OrtrainProviderOptions options = { .n_threads = 1 };
  g_autoptr (GError) error = NULL;
  self->provider = ortrain_provider_open ("cuda", &options, &error);
  g_assert_no_error (error);
  self->provider->klass->new_stream (self->provider, &self->stream, &error);
  g_assert_no_error (error);
  self->host = allocate (self, ORTRAIN_MEMORY_SPACE_HOST, N_BYTES);
  self->found = allocate (self, ORTRAIN_MEMORY_SPACE_HOST, N_BYTES);
  for (gsize i = 0; i < N_BYTES; i++)
    self->host[i] = (guint8) (1 + i % 255);
}

static void
close_device (Fixture *self)
{
  self->provider->klass->free (self->provider, ORTRAIN_MEMORY_SPACE_HOST, self->host, N_BYTES);
  self->provider->klass->free (self->provider, ORTRAIN_MEMORY_SPACE_HOST, self->found, N_BYTES);
  self->provider->klass->free_stream (self->provider, self->stream);
  ortrain_provider_unref (self->provider);
}

/* Data that is written to new memory at once stays, whatever the device does after. */
static void
test_written (void)
{
  Fixture f;
  guint8 *blocks[N_BLOCKS];
  open_device (&f);
  for (guint i = 0; i < N_BLOCKS; i++)
    {
      blocks[i] = allocate (&f, ORTRAIN_MEMORY_SPACE_DEVICE, N_BYTES);
      copy (&f, blocks[i], f.host, N_BYTES);
    }
  wait (&f);
  for (guint i = 0; i < N_BLOCKS; i++)
    {
      memset (f.found, 0, N_BYTES);
      copy (&f, f.found, blocks[i], N_BYTES);
      wait (&f);
      g_assert_cmpmem (f.found, N_BYTES, f.host, N_BYTES);
    }
  for (guint i = 0; i < N_BLOCKS; i++)
    f.provider->klass->free (f.provider, ORTRAIN_MEMORY_SPACE_DEVICE, blocks[i], N_BYTES);
  close_device (&f);
}

/* Memory that nobody has written is zero for the first who reads it. */
static void
test_clear (void)
{
  static const guint8 zeros[N_BYTES];
  Fixture f;
  open_device (&f);
  for (guint i = 0; i < N_BLOCKS; i++)
    {
      guint8 *block = allocate (&f, ORTRAIN_MEMORY_SPACE_DEVICE, N_BYTES);
      memset (f.found, 1, N_BYTES);
      copy (&f, f.found, block, N_BYTES);
      wait (&f);
      g_assert_cmpmem (f.found, N_BYTES, zeros, N_BYTES);
      f.provider->klass->free (f.provider, ORTRAIN_MEMORY_SPACE_DEVICE, block, N_BYTES);
    }
  close_device (&f);
}

/* Nothing goes to the stream that others are not ordered with: in torch's process, it is torch's. */
static void
test_no_legacy (void)
{
  Fixture f;
  open_device (&f);
  guint8 *block = allocate (&f, ORTRAIN_MEMORY_SPACE_DEVICE, N_BYTES);
  f.provider->klass->free (f.provider, ORTRAIN_MEMORY_SPACE_DEVICE, block, N_BYTES);
  close_device (&f);
  g_assert_cmpuint (ortrain_fake_cuda_get_counts ().n_legacy, ==, 0);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda-memory/written", test_written);
  g_test_add_func ("/cuda-memory/clear", test_clear);
  g_test_add_func ("/cuda-memory/no-legacy-stream", test_no_legacy);
  return g_test_run ();
}
