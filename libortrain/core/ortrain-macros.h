/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib-object.h>

#include "core/ortrain-version.h"

/* Everything is built with hidden visibility; what carries one of these is the public API. */
#define _ORTRAIN_EXTERN __attribute__ ((visibility ("default"))) extern

#define ORTRAIN_AVAILABLE_IN_ALL _ORTRAIN_EXTERN
#define ORTRAIN_AVAILABLE_IN_1_0 _ORTRAIN_EXTERN
