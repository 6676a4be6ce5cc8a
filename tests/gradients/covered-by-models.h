/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

/* Operators of our own whose kernel and body are compared in random models, by the differential test, which looks that
 * its models have them. All others have cases in test-bodies.c, which fails for an operator in neither. */
static const char *const covered_by_models[] = { "Elementwise", NULL };

/* Those that only devices with a library for them have a kernel for; tests/simt compares kernel and body. */
static const char *const of_devices[] = { "Linear",
                                          "LinearGelu",
                                          "LinearGeluGrad",
                                          "LinearGrad",
                                          "AddLayerNormalization",
                                          "AddLayerNormGrad",
                                          "AddRMSNormalization",
                                          "AddRMSNormGrad",
                                          "PackedLinear",
                                          "PackedLinearInputGrad",
                                          "PackedLinearGrad",
                                          "BatchNormReluGrad",
                                          "ConvChannelsLast",
                                          "ConvChannelsLastTranspose",
                                          "ConvChannelsLastGradInput",
                                          "ConvChannelsLastGradWeight",
                                          NULL };
