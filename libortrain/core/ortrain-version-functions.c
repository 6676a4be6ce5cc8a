/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-version-functions.h"

/**
 * ortrain_get_major_version:
 *
 * The major version of the library at run time; `ORTRAIN_MAJOR_VERSION` is that of the headers.
 *
 * Returns: the major version
 */
guint
ortrain_get_major_version (void)
{
  return ORTRAIN_MAJOR_VERSION;
}

/**
 * ortrain_get_minor_version:
 *
 * The minor version of the library at run time; `ORTRAIN_MINOR_VERSION` is that of the headers.
 *
 * Returns: the minor version
 */
guint
ortrain_get_minor_version (void)
{
  return ORTRAIN_MINOR_VERSION;
}

/**
 * ortrain_get_micro_version:
 *
 * The micro version of the library at run time; `ORTRAIN_MICRO_VERSION` is that of the headers.
 *
 * Returns: the micro version
 */
guint
ortrain_get_micro_version (void)
{
  return ORTRAIN_MICRO_VERSION;
}

/**
 * ortrain_get_version:
 *
 * The version of the library at run time, for instance `1.0.0`.
 *
 * Returns: (transfer none): the version
 */
const char *
ortrain_get_version (void)
{
  return ORTRAIN_VERSION_STRING;
}

/**
 * ortrain_check_version:
 * @major: major version
 * @minor: minor version
 * @micro: micro version
 *
 * Whether the library at run time is at least as new as the given version.
 *
 * Returns: %TRUE if it is
 */
gboolean
ortrain_check_version (guint major, guint minor, guint micro)
{
  const guint own[] = { ORTRAIN_MAJOR_VERSION, ORTRAIN_MINOR_VERSION, ORTRAIN_MICRO_VERSION };
  const guint wanted[] = { major, minor, micro };
  for (guint i = 0; i < G_N_ELEMENTS (own); i++)
    if (own[i] != wanted[i])
      return own[i] > wanted[i];
  return TRUE;
}
