/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib-object.h>

#include "core/ortrain-version.h"

/* Everything is built with hidden visibility; functions with one of the macros below are the public API. */
#define _ORTRAIN_EXTERN __attribute__ ((visibility ("default"))) extern

/**
 * ORTRAIN_VERSION_1_0: (skip)
 *
 * Version 1.0, for ORTRAIN_VERSION_MIN_REQUIRED and ORTRAIN_VERSION_MAX_ALLOWED.
 */
#define ORTRAIN_VERSION_1_0 (G_ENCODE_VERSION (1, 0))

/* A program that defines these before it includes <ortrain.h> is warned of functions that are newer than MAX_ALLOWED,
 * and not of those that were deprecated after MIN_REQUIRED. */
#ifndef ORTRAIN_VERSION_MIN_REQUIRED
#define ORTRAIN_VERSION_MIN_REQUIRED (G_ENCODE_VERSION (ORTRAIN_MAJOR_VERSION, ORTRAIN_MINOR_VERSION))
#endif
#ifndef ORTRAIN_VERSION_MAX_ALLOWED
#define ORTRAIN_VERSION_MAX_ALLOWED (G_ENCODE_VERSION (ORTRAIN_MAJOR_VERSION, ORTRAIN_MINOR_VERSION))
#endif
#if ORTRAIN_VERSION_MIN_REQUIRED < ORTRAIN_VERSION_1_0
#error "ORTRAIN_VERSION_MIN_REQUIRED is at least ORTRAIN_VERSION_1_0"
#endif
#if ORTRAIN_VERSION_MAX_ALLOWED < ORTRAIN_VERSION_MIN_REQUIRED
#error "ORTRAIN_VERSION_MAX_ALLOWED is at least ORTRAIN_VERSION_MIN_REQUIRED"
#endif

#define ORTRAIN_AVAILABLE_IN_ALL _ORTRAIN_EXTERN
#define ORTRAIN_AVAILABLE_IN_1_0 _ORTRAIN_EXTERN

/* When 1.2 comes:
 * #if ORTRAIN_VERSION_MAX_ALLOWED < ORTRAIN_VERSION_1_2
 * #define ORTRAIN_AVAILABLE_IN_1_2 G_UNAVAILABLE (1, 2) _ORTRAIN_EXTERN
 * #else
 * #define ORTRAIN_AVAILABLE_IN_1_2 _ORTRAIN_EXTERN
 * #endif
 * and the same with ORTRAIN_VERSION_MIN_REQUIRED >= … and G_DEPRECATED_FOR for ORTRAIN_DEPRECATED_IN_1_2_FOR(f). */
