/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "provider/ortrain-device.h"

#include "core/ortrain-counters-private.h"
#include "core/ortrain-field-private.h"
#include "core/ortrain-object-list-private.h"
#include "provider/ortrain-provider-module-private.h"

/**
 * OrtrainDevice:
 *
 * A device that sessions can run on, as one of the providers describes it. [property@TrainingOptions:provider] and
 * [property@SessionOptions:provider] take its name.
 *
 * ```python
 * for device in Ortrain.Device.list():
 *     print(device.props.name, device.props.available_memory, device.props.reason or "")
 * ```
 *
 * A device is immutable, and any thread may use it. It is opened when something of it is first asked for but its name
 * and number, which takes a moment and, on a GPU, some of its memory; its figures are those of that moment.
 */
struct _OrtrainDevice
{
  GObject parent_instance;

  const OrtrainProviderModule *module;
  GMutex mutex;
  gboolean is_known; /* the fields below */
  char *name;
  guint index;
  char *description;
  char *reason;
  guint64 total_memory;
  guint64 available_memory;
};

enum
{
  PROP_0,
  PROP_NAME,
  PROP_INDEX,
  PROP_DESCRIPTION,
  PROP_REASON,
  PROP_TOTAL_MEMORY,
  PROP_AVAILABLE_MEMORY,
  N_PROPERTIES
};

static GParamSpec *properties[N_PROPERTIES];

G_DEFINE_FINAL_TYPE (OrtrainDevice, ortrain_device, G_TYPE_OBJECT)

static void
ortrain_device_finalize (GObject *object)
{
  OrtrainDevice *self = ORTRAIN_DEVICE (object);

  g_mutex_clear (&self->mutex);
  g_free (self->name);
  g_free (self->description);
  g_free (self->reason);
  G_OBJECT_CLASS (ortrain_device_parent_class)->finalize (object);
}

static void
look (OrtrainDevice *self)
{
  g_mutex_lock (&self->mutex);
  if (self->module == NULL) /* made by g_object_new(), which bindings can call */
    {
      if (self->reason == NULL)
        self->reason = g_strdup ("it belongs to no provider: ortrain_device_list() returns devices that do");
    }
  else if (!self->is_known)
    {
      const OrtrainProviderOptions options = { .n_threads = 1, .device_index = self->index };
      g_autoptr (GError) error = NULL;
      self->reason = self->module->get_reason != NULL ? self->module->get_reason () : NULL;
      g_autoptr (OrtrainProvider) provider =
          self->reason == NULL ? ortrain_provider_open_module (self->module, &options, &error) : NULL;
      if (provider != NULL)
        {
          self->description = self->module->describe != NULL ? self->module->describe (self->index) : NULL;
          provider->klass->get_memory (provider, &self->total_memory, &self->available_memory);
        }
      else if (self->reason == NULL)
        self->reason = g_strdup (error->message);
      self->is_known = TRUE;
    }
  g_mutex_unlock (&self->mutex);
}

static void
ortrain_device_get_property (GObject *object, guint property_id, GValue *value, GParamSpec *pspec)
{
  if (property_id != PROP_NAME && property_id != PROP_INDEX)
    look (ORTRAIN_DEVICE (object));
  ortrain_field_get_property (object, property_id, value, pspec);
}

static void
ortrain_device_class_init (OrtrainDeviceClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY;

  object_class->finalize = ortrain_device_finalize;
  object_class->get_property = ortrain_device_get_property;

  /**
   * OrtrainDevice:name: (getter get_name)
   *
   * The name by which options select it: the name of its provider, such as `cpu`; for all devices of a provider but the
   * first, also the number, as in `cuda:1`. Read-only.
   */
  properties[PROP_NAME] =
      ortrain_field_at (g_param_spec_string ("name", NULL, NULL, NULL, flags), G_STRUCT_OFFSET (OrtrainDevice, name));
  /**
   * OrtrainDevice:index: (getter get_index)
   *
   * Its number among the devices of its provider, which [property@TrainingOptions:device-index] takes. Read-only.
   *
   * Since: 1.0
   */
  properties[PROP_INDEX] = ortrain_field_at (g_param_spec_uint ("index", NULL, NULL, 0, G_MAXUINT, 0, flags),
                                             G_STRUCT_OFFSET (OrtrainDevice, index));
  /**
   * OrtrainDevice:description: (getter get_description)
   *
   * A description, such as the name of a GPU and its compute capability; %NULL if its provider does not say, or it
   * cannot be used. Read-only.
   */
  properties[PROP_DESCRIPTION] = ortrain_field_at (g_param_spec_string ("description", NULL, NULL, NULL, flags),
                                                   G_STRUCT_OFFSET (OrtrainDevice, description));
  /**
   * OrtrainDevice:reason: (getter get_reason)
   *
   * Why it cannot be used; %NULL if it can. Read-only.
   */
  properties[PROP_REASON] = ortrain_field_at (g_param_spec_string ("reason", NULL, NULL, NULL, flags),
                                              G_STRUCT_OFFSET (OrtrainDevice, reason));
  /**
   * OrtrainDevice:total-memory: (getter get_total_memory)
   *
   * How much memory it has, in bytes. Read-only.
   */
  properties[PROP_TOTAL_MEMORY] =
      ortrain_field_at (g_param_spec_uint64 ("total-memory", NULL, NULL, 0, G_MAXUINT64, 0, flags),
                        G_STRUCT_OFFSET (OrtrainDevice, total_memory));
  /**
   * OrtrainDevice:available-memory: (getter get_available_memory)
   *
   * How much memory can be allocated, in bytes. Read-only.
   */
  properties[PROP_AVAILABLE_MEMORY] =
      ortrain_field_at (g_param_spec_uint64 ("available-memory", NULL, NULL, 0, G_MAXUINT64, 0, flags),
                        G_STRUCT_OFFSET (OrtrainDevice, available_memory));
  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
}

static void
ortrain_device_init (OrtrainDevice *self)
{
  g_mutex_init (&self->mutex);
}

/**
 * ortrain_device_list:
 *
 * Lists the devices: the CPU first, then those of other providers that are installed, also where they cannot be used;
 * [property@Device:reason] then says why.
 *
 * Returns: (transfer full): a list model of [class@Device]
 */
GListModel *
ortrain_device_list (void)
{
  OrtrainObjectList *list = ortrain_object_list_new (ORTRAIN_TYPE_DEVICE);
  const GPtrArray *modules = ortrain_provider_list_modules ();
  for (guint i = 0; i < modules->len; i++)
    {
      const OrtrainProviderModule *module = modules->pdata[i];
      g_autofree char *reason = module->get_reason != NULL ? module->get_reason () : NULL;
      const guint n_devices = reason == NULL ? ortrain_provider_module_get_n_devices (module) : 1;
      for (guint k = 0; k < n_devices; k++)
        {
          g_autoptr (OrtrainDevice) self = g_object_new (ORTRAIN_TYPE_DEVICE, NULL);
          self->module = module;
          self->name = g_strdup (ortrain_provider_name_device (module->name, k));
          self->index = k;
          ortrain_object_list_append (list, self);
        }
    }
  return G_LIST_MODEL (list);
}

/**
 * ortrain_device_get_name: (get-property name)
 * @self: a device
 *
 * Gets the name by which options select it: the name of its provider, such as `cpu`, and for all devices but the first
 * also the number, as in `cuda:1`.
 *
 * Returns: the name
 */
const char *
ortrain_device_get_name (OrtrainDevice *self)
{
  g_return_val_if_fail (ORTRAIN_IS_DEVICE (self), NULL);

  return self->name;
}

/**
 * ortrain_device_get_index: (get-property index)
 * @self: a device
 *
 * Gets its number among the devices of its provider, which the option `device-index` takes.
 *
 * Returns: the number, 0 for the first
 *
 * Since: 1.0
 */
guint
ortrain_device_get_index (OrtrainDevice *self)
{
  g_return_val_if_fail (ORTRAIN_IS_DEVICE (self), 0);

  return self->index;
}

/**
 * ortrain_device_get_description: (get-property description)
 * @self: a device
 *
 * Gets a description, such as the name of a GPU and its compute capability.
 *
 * Returns: (nullable): the description; %NULL if its provider does not say, or it cannot be used
 */
const char *
ortrain_device_get_description (OrtrainDevice *self)
{
  g_return_val_if_fail (ORTRAIN_IS_DEVICE (self), NULL);

  look (self);
  return self->description;
}

/**
 * ortrain_device_get_reason: (get-property reason)
 * @self: a device
 *
 * Gets why it cannot be used; %NULL if it can.
 *
 * Returns: (nullable): why it cannot be used
 */
const char *
ortrain_device_get_reason (OrtrainDevice *self)
{
  g_return_val_if_fail (ORTRAIN_IS_DEVICE (self), NULL);

  look (self);
  return self->reason;
}

/**
 * ortrain_device_get_total_memory: (get-property total-memory)
 * @self: a device
 *
 * Gets how much memory it has, in bytes.
 *
 * Returns: bytes; 0 if it cannot be used
 */
guint64
ortrain_device_get_total_memory (OrtrainDevice *self)
{
  g_return_val_if_fail (ORTRAIN_IS_DEVICE (self), 0);

  look (self);
  return self->total_memory;
}

/**
 * ortrain_device_get_available_memory: (get-property available-memory)
 * @self: a device
 *
 * Gets how much memory can be allocated, in bytes.
 *
 * Returns: bytes; 0 if it cannot be used
 */
guint64
ortrain_device_get_available_memory (OrtrainDevice *self)
{
  g_return_val_if_fail (ORTRAIN_IS_DEVICE (self), 0);

  look (self);
  return self->available_memory;
}

/**
 * ortrain_device_get_counters:
 * @self: a device
 *
 * Gets counts of the work of the device in this process up to now, a number for each name. Which names there are
 * depends on the provider; a name is missing until it was counted once. The CPU counts nothing.
 *
 * Results do not say whether a library computed them or a slower kernel in its place: these numbers do. The provider
 * `cuda` counts `dnn-runs` (operations submitted to cuDNN; those of a CUDA graph when it is captured), `dnn-fallbacks`
 * (that cuDNN refused, and another kernel computes), `products-fused` and `products-plain` (products of plans that
 * cuBLASLt computes, with and without bias, activation or sums in the same call), `product-fallbacks` (where it refused
 * to do so), `products-unaligned` (with rows that do not begin at multiples of 16 bytes), `attention-in-order` and
 * `attention-by-chance` (gradients of attention in plans, by the order in which cuDNN sums them), `algorithms-timed`
 * and `algorithms-remembered` (of products and convolutions: runs to find the fastest, and those that were found
 * before), `dnn-plans-compiled` and `dnn-plans-restored` (of attention: those that cuDNN compiled, and those of earlier
 * processes in the disk cache), `captures` (CUDA graphs), and `uncaptured-segments` (that could be none). With the
 * environment variable `ORTRAIN_CUDA_STRICT=1`, a fallback is an error.
 *
 * Returns: (transfer full): a dictionary of type `a{st}`, sorted by name
 */
GVariant *
ortrain_device_get_counters (OrtrainDevice *self)
{
  g_return_val_if_fail (ORTRAIN_IS_DEVICE (self), NULL);

  return g_variant_ref_sink (ortrain_counters_list (self->name));
}
