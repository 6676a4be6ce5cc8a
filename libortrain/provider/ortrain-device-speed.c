/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "provider/ortrain-device-speed-private.h"

#include "ortrain-enum-types.h"

#include "core/ortrain-json-private.h"
#include "core/ortrain-text-private.h"

#include <string.h>

#define MAX_DEPTH 16
#define MAX_BYTES_PER_SECOND 1e16
#define MAX_FLOPS_PER_SECOND 1e18
#define LAUNCH_SECONDS 2e-6

/* ---- names ---- */

#define SPEED(bytes, half, single, twice, reached)                                                                     \
  {                                                                                                                    \
    .bytes_per_second = (bytes),                                                                                       \
    .flops_per_second = { [ORTRAIN_DTYPE_FLOAT32] = (single),                                                          \
                          [ORTRAIN_DTYPE_FLOAT64] = (twice),                                                           \
                          [ORTRAIN_DTYPE_FLOAT16] = (half),                                                            \
                          [ORTRAIN_DTYPE_BFLOAT16] = (half) },                                                         \
    .reached_bytes = 0.9, .reached_flops = (reached), .launch_seconds = LAUNCH_SECONDS                                 \
  }

/* NVIDIA's data sheets, without sparsity, and for float32 without TF32. Large products reach: 650 Tflop/s of an H100,
 * whose clock falls at the limit of its power, and about 240 of an A100. */
static const struct
{
  const char *name, *title;
  OrtrainDeviceSpeed speed;
} known[] = {
  { "a100", "A100 SXM4 80 GB", SPEED (2.039e12, 312e12, 19.5e12, 9.7e12, 0.75) },
  { "h100", "H100 SXM5 80 GB", SPEED (3.35e12, 989.4e12, 66.9e12, 33.5e12, 0.65) },
  { "h200", "H200 SXM5 141 GB", SPEED (4.8e12, 989.4e12, 66.9e12, 33.5e12, 0.65) },
};

/* ---- files ---- */

static gboolean
refuse (const char *member, const char *expected, GError **error)
{
  g_set_error (error, G_FILE_ERROR, G_FILE_ERROR_INVAL, "\"%s\" has to be %s", member, expected);
  return FALSE;
}

static gboolean
get_number (JsonNode *node, double *number)
{
  if (node == NULL || !JSON_NODE_HOLDS_VALUE (node) ||
      (json_node_get_value_type (node) != G_TYPE_DOUBLE && json_node_get_value_type (node) != G_TYPE_INT64))
    return FALSE;
  *number = json_node_get_double (node);
  return TRUE;
}

/* A number above 0 and up to most; missing: the value if it is absent; 0: it must be present. */
static gboolean
read_number (JsonObject *object, const char *member, double most, double missing, double *number, GError **error)
{
  JsonNode *node = json_object_get_member (object, member);
  *number = node == NULL ? missing : 0;
  if (node == NULL && missing > 0)
    return TRUE;
  g_autofree char *expected = g_strdup_printf ("a number above 0 and up to %g", most);
  return (get_number (node, number) && *number > 0 && *number <= most) || refuse (member, expected, error);
}

static gboolean
read_flops (OrtrainDeviceSpeed *self, JsonObject *object, GError **error)
{
  JsonNode *node = json_object_get_member (object, "flops_per_second");
  JsonObject *flops = node != NULL && JSON_NODE_HOLDS_OBJECT (node) ? json_node_get_object (node) : NULL;
  if (flops == NULL || !json_object_has_member (flops, "float32"))
    return refuse ("flops_per_second", "an object with \"float32\", and with other types that are faster or slower",
                   error);
  g_autoptr (GList) members = json_object_get_members (flops);
  for (GList *l = members; l != NULL; l = l->next)
    {
      GEnumClass *types = g_type_class_ref (ORTRAIN_TYPE_DTYPE);
      const GEnumValue *type = g_enum_get_value_by_nick (types, l->data);
      const gint dtype = type != NULL ? type->value : 0;
      g_type_class_unref (types);
      if (dtype <= 0 || dtype >= ORTRAIN_DEVICE_SPEED_N_DTYPES)
        return refuse ("flops_per_second", "an object whose members are types, as \"bfloat16\"", error);
      if (!read_number (flops, l->data, MAX_FLOPS_PER_SECOND, 0, &self->flops_per_second[dtype], error))
        return FALSE;
    }
  return TRUE;
}

static gboolean
read_description (OrtrainDeviceSpeed *self, JsonObject *object, GError **error)
{
  JsonNode *reached = json_object_get_member (object, "reached");
  g_autoptr (JsonObject) none = json_object_new ();
  if (reached != NULL && !JSON_NODE_HOLDS_OBJECT (reached))
    return refuse ("reached", "an object with \"bytes\" and \"flops\"", error);
  JsonObject *shares = reached != NULL ? json_node_get_object (reached) : none;
  return read_number (object, "bytes_per_second", MAX_BYTES_PER_SECOND, 0, &self->bytes_per_second, error) &&
         read_number (object, "launch_seconds", 1, LAUNCH_SECONDS, &self->launch_seconds, error) &&
         read_number (shares, "bytes", 1, 1, &self->reached_bytes, error) &&
         read_number (shares, "flops", 1, 1, &self->reached_flops, error) && read_flops (self, object, error);
}

/* ---- results of tests/probe ---- */

static JsonObject *
get_object (JsonObject *object, const char *member)
{
  JsonNode *node = object != NULL ? json_object_get_member (object, member) : NULL;
  return node != NULL && JSON_NODE_HOLDS_OBJECT (node) ? json_node_get_object (node) : NULL;
}

/* A section's table of objects; NULL if it has no such table. */
static JsonArray *
get_table (JsonObject *section, const char *name)
{
  JsonNode *node = section != NULL ? json_object_get_member (section, name) : NULL;
  return node != NULL && JSON_NODE_HOLDS_ARRAY (node) ? json_node_get_array (node) : NULL;
}

static JsonObject *
get_row (JsonArray *table, guint i)
{
  JsonNode *row = json_array_get_element (table, i);
  return JSON_NODE_HOLDS_OBJECT (row) ? json_node_get_object (row) : NULL;
}

/* The rate of the largest copy: smaller ones stay in caches. */
static double
find_rate (JsonArray *table)
{
  double most = 0, rate = 0, bytes, copy;
  for (guint i = 0; table != NULL && i < json_array_get_length (table); i++)
    {
      JsonObject *row = get_row (table, i);
      if (row == NULL || !get_number (json_object_get_member (row, "bytes"), &bytes) ||
          !get_number (json_object_get_member (row, "copy"), &copy) || bytes <= most)
        continue;
      most = bytes;
      rate = copy * 1e9;
    }
  return rate;
}

static double
find_flops (JsonArray *table, const char *type)
{
  double most = 0, rate;
  for (guint i = 0; table != NULL && i < json_array_get_length (table); i++)
    {
      JsonObject *row = get_row (table, i);
      if (row != NULL && g_strcmp0 (ortrain_json_get_string (json_object_get_member (row, "from")), type) == 0 &&
          get_number (json_object_get_member (row, "tflops"), &rate))
        most = MAX (most, rate * 1e12);
    }
  return most;
}

/* These are rates that kernels reach, so they are used without a reduction. Where a section is missing, the probe was
 * cut short. */
static gboolean
read_facts (OrtrainDeviceSpeed *self, JsonObject *object, GError **error)
{
  JsonObject *memory = get_object (object, "memory"), *products = get_object (object, "products");
  JsonObject *submissions = get_object (memory, "submissions");
  JsonArray *table = get_table (products, "table");
  double microseconds = 0; /* of a CUDA graph of 200 operations that do next to nothing */
  self->bytes_per_second = find_rate (get_table (memory, "rates"));
  self->flops_per_second[ORTRAIN_DTYPE_BFLOAT16] = find_flops (table, "bf16");
  self->flops_per_second[ORTRAIN_DTYPE_FLOAT16] = find_flops (table, "f16");
  self->flops_per_second[ORTRAIN_DTYPE_FLOAT32] = find_flops (table, "f32");
  if (submissions != NULL)
    get_number (json_object_get_member (submissions, "us_graph_of_200_small_clears"), &microseconds);
  self->launch_seconds = microseconds > 0 && microseconds < 1e5 ? microseconds / 200e6 : LAUNCH_SECONDS;
  self->reached_bytes = self->reached_flops = 1;
  if (!(self->bytes_per_second > 0 && self->bytes_per_second <= MAX_BYTES_PER_SECOND))
    return refuse ("memory.rates", "what the probe measured: rates of copies within the device", error);
  for (guint i = 0; i < G_N_ELEMENTS (self->flops_per_second); i++)
    if (!(self->flops_per_second[i] >= 0 && self->flops_per_second[i] <= MAX_FLOPS_PER_SECOND))
      return refuse ("products.table", "what the probe measured: products, in Tflop/s", error);
  return self->flops_per_second[ORTRAIN_DTYPE_FLOAT32] > 0 ||
         refuse ("products.table", "what the probe measured: products of float32 among others", error);
}

static gboolean
read_file (OrtrainDeviceSpeed *self, const char *path, char **name, GError **error)
{
  g_autofree char *text = NULL;
  if (!g_file_test (path, G_FILE_TEST_EXISTS))
    {
      g_autoptr (GString) names = g_string_new (NULL);
      for (guint i = 0; i < G_N_ELEMENTS (known); i++)
        g_string_append_printf (names, "%s%s", i > 0 ? ", " : "", known[i].name);
      g_set_error (error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND,
                   "'%s' is neither a file nor one of the devices that are known: %s", ortrain_text_show (path),
                   names->str);
      return FALSE;
    }
  if (!g_file_get_contents (path, &text, NULL, error))
    return FALSE;
  g_autoptr (JsonNode) root = ortrain_json_parse (text, strlen (text), MAX_DEPTH, error);
  if (root == NULL)
    return FALSE;
  if (!JSON_NODE_HOLDS_OBJECT (root))
    return refuse ("", "an object", error);
  JsonObject *object = json_node_get_object (root), *device = get_object (object, "device");
  const gboolean is_facts = json_object_has_member (object, "format");
  const char *given = ortrain_json_get_string (json_object_get_member (device != NULL ? device : object, "name"));
  if (!(is_facts ? read_facts (self, object, error) : read_description (self, object, error)))
    return FALSE;
  if (name != NULL)
    *name = g_strdup (ortrain_text_show (given != NULL ? given : path));
  return TRUE;
}

gboolean
ortrain_device_speed_read (OrtrainDeviceSpeed *self, const char *device, char **name, GError **error)
{
  for (guint i = 0; i < G_N_ELEMENTS (known); i++)
    if (g_str_equal (known[i].name, device))
      {
        *self = known[i].speed;
        if (name != NULL)
          *name = g_strdup (known[i].title);
        return TRUE;
      }
  *self = (OrtrainDeviceSpeed){ 0 };
  if (read_file (self, device, name, error))
    return TRUE;
  if (error != NULL && !g_error_matches (*error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND))
    g_prefix_error (error, "%s: ", ortrain_text_show (device));
  return FALSE;
}

/* ---- numbers ---- */

double
ortrain_device_speed_get_flops (const OrtrainDeviceSpeed *self, OrtrainDType dtype)
{
  const double own = (guint) dtype < ORTRAIN_DEVICE_SPEED_N_DTYPES ? self->flops_per_second[dtype] : 0;
  return (own > 0 ? own : self->flops_per_second[ORTRAIN_DTYPE_FLOAT32]) * self->reached_flops;
}

double
ortrain_device_speed_get_bytes (const OrtrainDeviceSpeed *self)
{
  return self->bytes_per_second * self->reached_bytes;
}

double
ortrain_device_speed_get_flops_per_byte (const OrtrainDeviceSpeed *self, OrtrainDType dtype)
{
  const double flops = ortrain_device_speed_get_flops (self, dtype), bytes = ortrain_device_speed_get_bytes (self);
  return flops > 0 && bytes > 0 ? flops / bytes : 10; /* of a provider that says nothing: as a CPU's */
}

gint64
ortrain_device_speed_get_launch_bytes (const OrtrainDeviceSpeed *self)
{
  return (gint64) (self->launch_seconds * ortrain_device_speed_get_bytes (self));
}
