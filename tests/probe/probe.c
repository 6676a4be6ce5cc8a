/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "probe.h"

#include "cuda/ortrain-cuda-library-private.h"

#include "common/ortrain-formulas.h"

#include <math.h>
#include <string.h>

/* The parts of the provider that open NVIDIA's libraries and talk to cuDNN are compiled into this program, so that it
 * finds what the provider would find. These are all the functions of Ortrain that they need. */

static GQuark
get_quark (void)
{
  return g_quark_from_static_string ("ortrain-probe");
}

static GBytes *
look_up_nothing (const char *kind, gconstpointer key, gsize n_key)
{
  return NULL;
}

static void
store_nothing (const char *kind, gconstpointer key, gsize n_key, GBytes *contents)
{
}

static void
count_nothing (const char *device, const char *name)
{
}

static const OrtrainLibraryFunctions functions = { .device_error_quark = get_quark,
                                                   .plan_error_quark = get_quark,
                                                   .disk_cache_lookup = look_up_nothing,
                                                   .disk_cache_store = store_nothing,
                                                   .count = count_nothing };
const OrtrainLibraryFunctions *ortrain_cuda_library = &functions;

void
ortrain_cuda_fail (const OrtrainKernelCall *call, const char *format, ...)
{
  va_list arguments;
  va_start (arguments, format);
  g_autofree char *text = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  g_printerr ("%s\n", text);
}

/* ---- members ---- */

void
probe_add_int (Probe *self, const char *name, gint64 value)
{
  json_builder_set_member_name (self->json, name);
  json_builder_add_int_value (self->json, value);
}

void
probe_add_bool (Probe *self, const char *name, gboolean value)
{
  json_builder_set_member_name (self->json, name);
  json_builder_add_boolean_value (self->json, value);
}

void
probe_add_double (Probe *self, const char *name, double value)
{
  json_builder_set_member_name (self->json, name);
  if (isfinite (value))
    json_builder_add_double_value (self->json, value);
  else
    json_builder_add_null_value (self->json);
}

void
probe_add_text (Probe *self, const char *name, const char *value)
{
  json_builder_set_member_name (self->json, name);
  if (value != NULL)
    json_builder_add_string_value (self->json, value);
  else
    json_builder_add_null_value (self->json);
}

void
probe_add_code (Probe *self, const char *name, cudaError_t code)
{
  probe_add_text (self, name, cudaGetErrorName (code));
  cudaGetLastError ();
}

gboolean
probe_check (Probe *self, cudaError_t code, const char *what)
{
  if (code == cudaSuccess)
    return TRUE;
  g_autofree char *text = g_strdup_printf ("%s: %s", what, cudaGetErrorName (code));
  probe_add_text (self, "error", text);
  cudaGetLastError ();
  return FALSE;
}

void
probe_begin (Probe *self, const char *name)
{
  if (name != NULL)
    json_builder_set_member_name (self->json, name);
  json_builder_begin_object (self->json);
}

void
probe_begin_array (Probe *self, const char *name)
{
  json_builder_set_member_name (self->json, name);
  json_builder_begin_array (self->json);
}

void
probe_end (Probe *self)
{
  json_builder_end_object (self->json);
}

void
probe_end_array (Probe *self)
{
  json_builder_end_array (self->json);
}

/* ---- measuring ---- */

double
probe_measure (Probe *self, guint n, ProbeSubmitFunc submit, gpointer data)
{
  cudaEvent_t begin = NULL, end = NULL;
  double best = NAN;
  gboolean ok =
      cudaEventCreateWithFlags (&begin, 0) == cudaSuccess && cudaEventCreateWithFlags (&end, 0) == cudaSuccess;
  for (guint i = 0; ok && i < 4; i++)
    {
      float milliseconds = 0;
      ok = cudaEventRecord (begin, self->stream) == cudaSuccess;
      for (guint k = 0; ok && k < n; k++)
        ok = submit (data);
      ok = ok && cudaEventRecord (end, self->stream) == cudaSuccess && cudaEventSynchronize (end) == cudaSuccess &&
           cudaEventElapsedTime (&milliseconds, begin, end) == cudaSuccess;
      if (ok && i > 0)
        best = fmin (best, (double) milliseconds / n);
    }
  if (begin != NULL)
    cudaEventDestroy (begin);
  if (end != NULL)
    cudaEventDestroy (end);
  cudaStreamSynchronize (self->stream);
  cudaGetLastError ();
  return ok ? best : NAN;
}

const char *
probe_type_get_name (ProbeType type)
{
  return type == PROBE_BF16 ? "bf16" : type == PROBE_F16 ? "f16" : "f32";
}

gsize
probe_type_get_size (ProbeType type)
{
  return type == PROBE_F32 ? 4 : 2;
}

/* Zeros would be multiplied faster than the values of models. A block that is repeated is random enough for that. */
void *
probe_allocate_random (Probe *self, ProbeType type, gsize n)
{
  const gsize size = probe_type_get_size (type), n_block = MIN (n, (gsize) 1 << 20);
  g_autofree guint8 *block = g_malloc (n_block * size);
  void *address = NULL;
  guint32 random = 1;
  for (gsize i = 0; i < n_block; i++)
    {
      random = random * 1664525u + 1013904223u;
      const float x = (float) (random >> 8) / (1 << 23) - 1.0f;
      if (type == PROBE_F32)
        ((float *) block)[i] = x;
      else
        ((guint16 *) block)[i] = type == PROBE_F16 ? ortrain_float_to_half (x) : ortrain_float_to_bfloat16 (x);
    }
  if (cudaMalloc (&address, n * size) != cudaSuccess)
    {
      cudaGetLastError ();
      return NULL;
    }
  gboolean ok = TRUE;
  for (gsize at = 0; ok && at < n; at += n_block)
    ok = cudaMemcpyAsync ((guint8 *) address + at * size, block, MIN (n_block, n - at) * size, cudaMemcpyDefault,
                          self->stream) == cudaSuccess;
  if (ok && cudaStreamSynchronize (self->stream) == cudaSuccess)
    return address;
  cudaGetLastError ();
  cudaFree (address);
  return NULL;
}

/* ---- sections ---- */

void
probe_device (Probe *self)
{
  struct cudaDeviceProp properties;
  int driver = 0, runtime = 0;
  g_autofree char *libraries = ortrain_cuda_describe_libraries ();
  if (!probe_check (self, cudaGetDeviceProperties (&properties, 0), "cudaGetDeviceProperties"))
    return;
  cudaDriverGetVersion (&driver);
  cudaRuntimeGetVersion (&runtime);
  probe_add_text (self, "name", properties.name);
  probe_add_int (self, "capability", properties.major * 10 + properties.minor);
  probe_add_int (self, "processors", properties.multiProcessorCount);
  probe_add_int (self, "l2_bytes", properties.l2CacheSize);
  probe_add_int (self, "memory_bytes", (gint64) properties.totalGlobalMem);
  probe_add_int (self, "driver", driver);
  probe_add_int (self, "runtime", runtime);
  probe_add_text (self, "libraries", libraries);
}

typedef struct
{
  const char *name;
  void (*run) (Probe *self);
} Section;

static const Section sections[] = {
  { "device", probe_device },     { "memory", probe_memory },       { "capture", probe_capture },
  { "products", probe_products }, { "attention", probe_attention }, { "convolutions", probe_convolutions },
};

/* After each section: the facts so far are kept if the next section ends the process. */
static gboolean
write_facts (JsonNode *root, const char *path, GError **error)
{
  g_autoptr (JsonGenerator) generator = json_generator_new ();
  json_generator_set_root (generator, root);
  json_generator_set_pretty (generator, TRUE);
  if (path != NULL)
    return json_generator_to_file (generator, path, error);
  g_autofree char *text = json_generator_to_data (generator, NULL);
  g_print ("%s\n", text);
  return TRUE;
}

static JsonNode *
run_section (Probe *self, const Section *section)
{
  const gint64 begin = g_get_monotonic_time ();
  self->json = json_builder_new ();
  json_builder_begin_object (self->json);
  section->run (self);
  cudaDeviceSynchronize ();
  probe_add_code (self, "ends_with", cudaGetLastError ());
  probe_add_double (self, "seconds", (double) (g_get_monotonic_time () - begin) / 1e6);
  json_builder_end_object (self->json);
  JsonNode *node = json_builder_get_root (self->json);
  g_clear_object (&self->json);
  return node;
}

int
main (int argc, char *argv[])
{
  g_autofree char *path = NULL, *wanted = NULL;
  gboolean is_small = FALSE;
  const GOptionEntry entries[] = {
    { "small", 0, 0, G_OPTION_ARG_NONE, &is_small, "Sizes for an emulated device", NULL },
    { "sections", 0, 0, G_OPTION_ARG_STRING, &wanted, "Some of: device,memory,capture,products,attention,convolutions",
      "NAMES" },
    { "output", 0, 0, G_OPTION_ARG_FILENAME, &path, "Where the facts go (standard output)", "FILE" },
    { NULL },
  };
  g_autoptr (GError) error = NULL;
  g_autoptr (GOptionContext) context = g_option_context_new ("- facts about a GPU and NVIDIA's libraries");
  g_option_context_add_main_entries (context, entries, NULL);
  if (!g_option_context_parse (context, &argc, &argv, &error))
    {
      g_printerr ("%s\n", error->message);
      return 2;
    }
  Probe self = { .is_small = is_small };
  int n_devices = 0;
  cudaError_t code = cudaGetDeviceCount (&n_devices);
  if (code == cudaSuccess)
    code = cudaStreamCreateWithFlags (&self.stream, cudaStreamNonBlocking);
  if (code != cudaSuccess)
    {
      g_printerr ("There is no device: %s\n", cudaGetErrorString (code));
      return 1;
    }
  g_auto (GStrv) names = wanted != NULL ? g_strsplit (wanted, ",", -1) : NULL;
  g_autoptr (JsonNode) root = json_node_new (JSON_NODE_OBJECT);
  json_node_take_object (root, json_object_new ());
  json_object_set_int_member (json_node_get_object (root), "format", 1);
  for (guint i = 0; i < G_N_ELEMENTS (sections); i++)
    if (names == NULL || g_strv_contains ((const char *const *) names, sections[i].name))
      {
        json_object_set_member (json_node_get_object (root), sections[i].name, run_section (&self, &sections[i]));
        if (path != NULL && !write_facts (root, path, &error))
          break;
      }
  if (path == NULL)
    write_facts (root, NULL, NULL);
  cudaStreamDestroy (self.stream);
  if (error == NULL)
    return 0;
  g_printerr ("%s\n", error->message);
  return 1;
}
