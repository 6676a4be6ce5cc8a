/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The path of a file or a folder, for the arguments of one call of printf, as ortrain_text_show shows a name. */
const char *ortrain_text_show_path (const char *path);
