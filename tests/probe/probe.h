/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <json-glib/json-glib.h>

#include <cuda_runtime_api.h>

G_BEGIN_DECLS

/* Facts about a device and NVIDIA's libraries that documentation does not settle, as JSON; README.md describes each of
 * them. Each section is a function that adds members to an object which is open; a failure is a fact too, and is
 * recorded. */
typedef struct
{
  JsonBuilder *json;
  gboolean is_small;   /* sizes for an emulated device */
  cudaStream_t stream; /* does not block, as the provider's */
} Probe;

void probe_device (Probe *self);
void probe_memory (Probe *self);
void probe_capture (Probe *self);
void probe_products (Probe *self);
void probe_attention (Probe *self);
void probe_convolutions (Probe *self);

/* ---- for sections ---- */

void probe_add_int (Probe *self, const char *name, gint64 value);
void probe_add_bool (Probe *self, const char *name, gboolean value);
/* Not a number: null. */
void probe_add_double (Probe *self, const char *name, double value);
/* NULL: null. */
void probe_add_text (Probe *self, const char *name, const char *value);
/* The name of a code of the runtime, "cudaSuccess" included; the thread's last error is cleared. */
void probe_add_code (Probe *self, const char *name, cudaError_t code);
/* TRUE if it is cudaSuccess; else the member "error", once for an object, names the failed call. */
gboolean probe_check (Probe *self, cudaError_t code, const char *what);
void probe_begin (Probe *self, const char *name);       /* of an object in an object */
void probe_begin_array (Probe *self, const char *name); /* its elements are objects: probe_begin with NULL */
void probe_end (Probe *self);
void probe_end_array (Probe *self);

typedef gboolean (*ProbeSubmitFunc) (gpointer data);
/* Milliseconds of one of n submissions to the probe's stream, the least of three measurements after one that is not
 * counted; NaN where one fails. */
double probe_measure (Probe *self, guint n, ProbeSubmitFunc submit, gpointer data);

typedef enum
{
  PROBE_BF16,
  PROBE_F16,
  PROBE_F32,
} ProbeType;

const char *probe_type_get_name (ProbeType type);
gsize probe_type_get_size (ProbeType type);
/* In the memory of the device, random from -1 to 1; NULL where there is no memory for it. */
void *probe_allocate_random (Probe *self, ProbeType type, gsize n);

G_END_DECLS
