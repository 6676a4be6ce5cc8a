/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "plan/ortrain-memory-report.h"

/* The fields are copied; phase must be a static or interned string. */
OrtrainMemoryReport *ortrain_memory_report_new (const OrtrainMemoryReport *fields);
