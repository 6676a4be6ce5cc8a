/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Says once, in a process of PyGObject that has not found gi/overrides/Ortrain.py, what that means. For the registration of
 * types, in which PyGObject's thread holds Python's lock. */
void ortrain_python_check_override (void);
