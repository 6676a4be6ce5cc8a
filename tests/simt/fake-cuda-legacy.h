/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <functional>

/* The legacy stream of the calling thread's device. Streams that do not block neither wait for it nor hold it up. Its
 * operations run when somebody waits for it, or else late, when other streams have run some operations that came after
 * them. */
void fake_cuda_add_legacy (std::function<void (void)> run);
void fake_cuda_run_legacy (void);
/* Another stream of the device has run an operation. */
void fake_cuda_age_legacy (void);
