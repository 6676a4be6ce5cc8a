/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <gmodule.h>

/* Prints a hint in a process of PyGObject that has not found gi/overrides/Ortrain.py: PyGObject's own message about a
 * call that only the override accepts, such as AdamW (1e-3), names neither the override nor the library. PyGObject
 * loads the library when a program names the first type, after the override and with Python's lock. The list of
 * imported Python modules is read through functions that are looked up in the process. */
__attribute__ ((constructor)) static void
check_override (void)
{
  int (*holds_lock) (void) = NULL;
  gpointer (*get_modules) (void) = NULL;
  gpointer (*get_item) (gpointer dict, const char *key) = NULL;
  GModule *process = g_module_open (NULL, 0);
  if (process != NULL && g_module_symbol (process, "PyGILState_Check", (gpointer *) &holds_lock) &&
      g_module_symbol (process, "PyImport_GetModuleDict", (gpointer *) &get_modules) &&
      g_module_symbol (process, "PyDict_GetItemString", (gpointer *) &get_item) && holds_lock () == 1)
    {
      gpointer modules = get_modules ();
      if (get_item (modules, "gi.repository") != NULL && get_item (modules, "gi.overrides.Ortrain") == NULL)
        g_message ("Python does not find gi/overrides/Ortrain.py: without it, arrays and mappings are not taken, and "
                   "constructors take nothing but properties by their names. Add the folder that has it to PYTHONPATH, "
                   "or to a .pth file of the virtual environment; doc/python.md says more");
    }
  g_clear_pointer (&process, g_module_close);
}
