/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "plan/ortrain-memory-plan-private.h"

/* How a plan names its regions, categories, phases and streams, and the colors of the categories. */

const char *
ortrain_region_get_nick (OrtrainRegion region)
{
  switch (region)
    {
    case ORTRAIN_REGION_ARENA:
      return "arena";
    case ORTRAIN_REGION_HOST_ARENA:
      return "host-arena";
    case ORTRAIN_REGION_PARAMETER:
      return "parameter";
    case ORTRAIN_REGION_GRADIENT:
      return "gradient";
    case ORTRAIN_REGION_STATE:
      return "state";
    case ORTRAIN_REGION_BUFFER:
      return "buffer";
    case ORTRAIN_REGION_CONSTANT:
      return "constant";
    case ORTRAIN_REGION_INPUT:
      return "input";
    case ORTRAIN_REGION_OUTPUT:
      return "output";
    }
  return "unknown";
}

const char *
ortrain_category_get_nick (OrtrainCategory category)
{
  switch (category)
    {
    case ORTRAIN_CATEGORY_PARAMETER:
      return "parameter";
    case ORTRAIN_CATEGORY_GRADIENT:
      return "gradient";
    case ORTRAIN_CATEGORY_STATE:
      return "state";
    case ORTRAIN_CATEGORY_BUFFER:
      return "buffer";
    case ORTRAIN_CATEGORY_CONSTANT:
      return "constant";
    case ORTRAIN_CATEGORY_ACTIVATION:
      return "activation";
    case ORTRAIN_CATEGORY_TEMPORARY:
      return "temporary";
    case ORTRAIN_CATEGORY_WORKSPACE:
      return "workspace";
    case ORTRAIN_CATEGORY_INPUT:
      return "input";
    case ORTRAIN_CATEGORY_OUTPUT:
      return "output";
    }
  return "unknown";
}

const char *
ortrain_category_get_color (OrtrainCategory category)
{
  switch (category)
    {
    case ORTRAIN_CATEGORY_PARAMETER:
      return "#3584e4";
    case ORTRAIN_CATEGORY_GRADIENT:
      return "#e66100";
    case ORTRAIN_CATEGORY_STATE:
      return "#9141ac";
    case ORTRAIN_CATEGORY_BUFFER:
      return "#986a44";
    case ORTRAIN_CATEGORY_CONSTANT:
      return "#77767b";
    case ORTRAIN_CATEGORY_ACTIVATION:
      return "#2ec27e";
    case ORTRAIN_CATEGORY_TEMPORARY:
      return "#f5c211";
    case ORTRAIN_CATEGORY_WORKSPACE:
      return "#c01c28";
    case ORTRAIN_CATEGORY_INPUT:
      return "#62a0ea";
    case ORTRAIN_CATEGORY_OUTPUT:
      return "#33c7de";
    }
  return "#000000";
}

static const char *const phase_names[] = { "forward", "backward", "update" };
G_STATIC_ASSERT (G_N_ELEMENTS (phase_names) == ORTRAIN_N_PHASES);

const char *
ortrain_phase_get_name (OrtrainPhase phase)
{
  return phase_names[phase];
}

const char *
ortrain_plan_stream_get_name (OrtrainPlanStream stream)
{
  switch (stream)
    {
    case ORTRAIN_STREAM_COMPUTE:
      return "compute";
    case ORTRAIN_STREAM_SIDE:
      return "side";
    case ORTRAIN_STREAM_COPY:
      return "copy";
    case ORTRAIN_STREAM_HOST:
      return "host";
    case ORTRAIN_N_STREAMS:
      break;
    }
  g_assert_not_reached ();
}
