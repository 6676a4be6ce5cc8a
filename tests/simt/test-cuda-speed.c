/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "folder.h"
#include "session/fixture.h"
#include "simt/fake-cuda.h"

#include "provider/ortrain-provider-private.h"

#include <unistd.h>

/* How fast the provider takes a device to be: from the attributes that the runtime reports, or from a description in
 * their place. */

static OrtrainProvider *
open_device (const char *model, const char *speed, GError **error)
{
  const OrtrainProviderOptions options = { .n_threads = 1 };
  if (model != NULL)
    g_setenv ("ORTRAIN_FAKE_CUDA_MODEL", model, TRUE);
  if (speed != NULL)
    g_setenv ("ORTRAIN_DEVICE_SPEED", speed, TRUE);
  OrtrainProvider *provider = ortrain_provider_open ("cuda", &options, error);
  g_unsetenv ("ORTRAIN_FAKE_CUDA_MODEL");
  g_unsetenv ("ORTRAIN_DEVICE_SPEED");
  return provider;
}

static void
assert_near (double number, double want, double part)
{
  g_assert_cmpfloat_with_epsilon (number, want, want * part);
}

/* The speed that is derived from the attributes is the one that the data sheet gives, at the clock of the data sheet:
 * at the highest clock, an H100 would reach 8 % more than NVIDIA's number, which assumes a lower one. */
static void
test_derived (gconstpointer data)
{
  static const char *const names[] = { "a100", "h100", "h200" };
  const char *name = data;
  OrtrainDeviceSpeed sheet;
  g_autofree char *title = NULL;
  g_autoptr (GError) error = NULL;
  g_assert_true (g_strv_contains ((const char *const[]){ names[0], names[1], names[2], NULL }, name));
  g_autoptr (OrtrainProvider) provider = open_device (name, NULL, &error);
  g_assert_no_error (error);
  if (!ortrain_fake_cuda_is_in_use ())
    {
      g_test_skip ("on a device");
      return;
    }
  const OrtrainDeviceSpeed *speed = &provider->speed;
  g_assert_true (ortrain_device_speed_read (&sheet, name, &title, &error));
  g_assert_no_error (error);
  assert_near (speed->bytes_per_second, sheet.bytes_per_second, 0.03);
  assert_near (speed->flops_per_second[ORTRAIN_DTYPE_BFLOAT16], sheet.flops_per_second[ORTRAIN_DTYPE_BFLOAT16], 0.09);
  for (OrtrainDType dtype = 0; dtype < ORTRAIN_DEVICE_SPEED_N_DTYPES; dtype++)
    {
      assert_near (ortrain_device_speed_get_flops (speed, dtype), ortrain_device_speed_get_flops (&sheet, dtype), 0.08);
      assert_near (ortrain_device_speed_get_flops_per_byte (speed, dtype),
                   ortrain_device_speed_get_flops_per_byte (&sheet, dtype), 0.11);
    }
  g_assert_cmpfloat (speed->launch_seconds, ==, sheet.launch_seconds);
}

/* The numbers of an H100 themselves: operations in 16 bits for a byte of its memory, bytes and operations that kernels
 * reach. */
static void
test_h100 (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainProvider) h100 = open_device ("h100", NULL, &error), a100 = open_device ("a100", NULL, &error);
  g_assert_no_error (error);
  if (!ortrain_fake_cuda_is_in_use ())
    {
      g_test_skip ("on a device");
      return;
    }
  const OrtrainDeviceSpeed *speed = &h100->speed;
  g_assert_cmpfloat (speed->bytes_per_second, ==, 2 * 2619e6 * 640);
  g_assert_cmpfloat (speed->flops_per_second[ORTRAIN_DTYPE_BFLOAT16], ==, 132 * 1.98e9 * 4096);
  assert_near (speed->flops_per_second[ORTRAIN_DTYPE_BFLOAT16] / speed->bytes_per_second, 330, 0.04);
  assert_near (ortrain_device_speed_get_bytes (speed), 3.0e12, 0.01);
  assert_near (ortrain_device_speed_get_flops (speed, ORTRAIN_DTYPE_BFLOAT16), 645e12, 0.01);
  assert_near (ortrain_device_speed_get_flops_per_byte (speed, ORTRAIN_DTYPE_BFLOAT16), 213, 0.01);
  assert_near (ortrain_device_speed_get_flops_per_byte (&a100->speed, ORTRAIN_DTYPE_BFLOAT16), 128, 0.01);
  g_assert_cmpint (ortrain_device_speed_get_launch_bytes (speed), ==, 6034176);

  /* a device that does not say how fast it is */
  g_autoptr (OrtrainProvider) unknown = open_device ("unknown", NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpfloat (unknown->speed.bytes_per_second, ==, 1e12);
  g_assert_cmpfloat (unknown->speed.flops_per_second[ORTRAIN_DTYPE_BFLOAT16], ==, 10 * 1.5e9 * 512);
}

#define PROBED                                                                                                         \
  "{ \"format\": 1, \"device\": { \"name\": \"a GPU\" }, \"memory\": { \"rates\": [ { \"bytes\": 1048576, \"copy\": "  \
  "9000 }, "                                                                                                           \
  "{ \"bytes\": 1073741824, \"copy\": 2800 } ], \"submissions\": { \"us_graph_of_200_small_clears\": 300 } }, "        \
  "\"products\": { "                                                                                                   \
  "\"table\": [ { \"from\": \"bf16\", \"tflops\": 600 }, { \"from\": \"bf16\", \"tflops\": 650 }, { \"from\": "        \
  "\"bf16\" }, "                                                                                                       \
  "{ \"from\": \"f32\", \"tflops\": 50 } ] } }"

static void
test_described (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *folder = g_dir_make_tmp ("ortrain-speed-XXXXXX", &error),
                  *path = g_build_filename (folder, "facts.json", NULL);
  g_assert_no_error (error);
  g_autoptr (OrtrainProvider) named = open_device (NULL, "h200", &error);
  g_assert_no_error (error);
  g_assert_cmpfloat (named->speed.bytes_per_second, ==, 4.8e12);

  /* as tests/probe writes it: the largest copy, the fastest product */
  g_assert_true (g_file_set_contents (path, PROBED, -1, &error));
  g_autoptr (OrtrainProvider) probed = open_device (NULL, path, &error);
  g_assert_no_error (error);
  assert_near (ortrain_device_speed_get_bytes (&probed->speed), 2.8e12, 1e-9);
  assert_near (ortrain_device_speed_get_flops (&probed->speed, ORTRAIN_DTYPE_BFLOAT16), 650e12, 1e-9);
  assert_near (ortrain_device_speed_get_flops (&probed->speed, ORTRAIN_DTYPE_FLOAT32), 50e12, 1e-9);
  assert_near (probed->speed.launch_seconds, 1.5e-6, 1e-9);

  /* a wrong value is an error that says where */
  static const struct
  {
    const char *contents, *text;
  } wrong[] = {
    { "{ \"format\": 1 }", "\"memory.rates\" has to be what the probe measured" },
    { "{ \"format\": 1, \"memory\": { \"rates\": [ { \"bytes\": 1, \"copy\": 1 } ] } }",
      "\"products.table\" has to be" },
    { "{ \"bytes_per_second\": 1e12 }", "\"flops_per_second\" has to be an object with \"float32\"" },
    { "{ \"bytes_per_second\": -1, \"flops_per_second\": { \"float32\": 1 } }",
      "\"bytes_per_second\" has to be a number" },
    { "[ 1 ]", "has to be an object" },
    { "{ 1", "" },
  };
  for (guint i = 0; i < G_N_ELEMENTS (wrong); i++)
    {
      g_assert_true (g_file_set_contents (path, wrong[i].contents, -1, NULL));
      g_assert_null (open_device (NULL, path, &error));
      g_assert_nonnull (error);
      g_assert_true (g_str_has_prefix (error->message, "ORTRAIN_DEVICE_SPEED: "));
      g_assert_nonnull (strstr (error->message, wrong[i].text));
      g_clear_error (&error);
    }
  g_assert_null (open_device (NULL, "h999", &error));
  g_assert_nonnull (error);
  g_assert_cmpstr (
      error->message, ==,
      "ORTRAIN_DEVICE_SPEED: 'h999' is neither a file nor one of the devices that are known: a100, h100, h200");
  test_remove_folder (folder);
}

/* Plans of a device are the same whenever it is opened, and another device may have another one. */
static char *
make_plan (const char *device)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load ("gpt2");
  g_autoptr (OrtrainTrainingOptions) options = test_model_make_options (model, "adamw");
  g_object_set (options, "provider", "cuda", "precision", ORTRAIN_PRECISION_BF16, NULL);
  g_setenv ("ORTRAIN_FAKE_CUDA_MODEL", device, TRUE);
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model->model, options, &error);
  g_unsetenv ("ORTRAIN_FAKE_CUDA_MODEL");
  g_assert_no_error (error);
  g_autoptr (OrtrainMemoryPlan) plan = ortrain_training_session_plan (session, test_model_feeds (model, 0), &error);
  g_assert_no_error (error);
  return ortrain_memory_plan_to_json (plan);
}

static void
test_plans (void)
{
  g_autofree char *first = make_plan ("h100"), *again = make_plan ("h100"), *other = make_plan ("a100");
  g_assert_cmpstr (first, ==, again);
  if (ortrain_fake_cuda_is_in_use ())
    g_assert_cmpstr (first, !=, other); /* estimated times, at least */
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_data_func ("/cuda-speed/derived/a100", "a100", test_derived);
  g_test_add_data_func ("/cuda-speed/derived/h100", "h100", test_derived);
  g_test_add_data_func ("/cuda-speed/derived/h200", "h200", test_derived);
  g_test_add_func ("/cuda-speed/h100", test_h100);
  g_test_add_func ("/cuda-speed/described", test_described);
  g_test_add_func ("/cuda-speed/plans", test_plans);
  return g_test_run ();
}
