/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-dtype.h"

#include <gio/gio.h>

/* The speed of a device: plans weigh kernels by it, and the roofline model of `ortrain plan --device` uses it. */

#define ORTRAIN_DEVICE_SPEED_N_DTYPES (ORTRAIN_DTYPE_BFLOAT16 + 1)

typedef struct
{
  double bytes_per_second;                                /* of its memory; 0: not known */
  double flops_per_second[ORTRAIN_DEVICE_SPEED_N_DTYPES]; /* by type; 0: as float32 */
  double reached_bytes, reached_flops;                    /* shares of both that kernels reach */
  double launch_seconds;                                  /* from one kernel to the next */
} OrtrainDeviceSpeed;

/* A device by its name (`h100`), or from a file: JSON of this structure's members, or the output of tests/probe. name:
 * receives the device's name, transfer full; may be NULL. FALSE with an error of G_FILE_ERROR or JSON_PARSER_ERROR;
 * G_IO_ERROR_NOT_FOUND: no such name or file exists. */
gboolean ortrain_device_speed_read (OrtrainDeviceSpeed *self, const char *device, char **name, GError **error);

/* The rates that kernels reach. */
double ortrain_device_speed_get_flops (const OrtrainDeviceSpeed *self, OrtrainDType dtype);
double ortrain_device_speed_get_bytes (const OrtrainDeviceSpeed *self);
/* Operations in the time of a byte. */
double ortrain_device_speed_get_flops_per_byte (const OrtrainDeviceSpeed *self, OrtrainDType dtype);
/* Bytes of memory that are moved in the time that a launch takes. */
gint64 ortrain_device_speed_get_launch_bytes (const OrtrainDeviceSpeed *self);
