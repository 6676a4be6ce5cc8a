// SPDX-License-Identifier: LGPL-2.1-or-later
/* exported init */
// Classes that users derive: the library calls their methods. Natural return values are converted; any other value gives an
// error that shows the value and the required form.
const {GLib, GObject} = imports.gi;
const {show} = imports.overrides._ortrain.values;

// fail (error): has the call under way throw it; whether there is one
function init(Ortrain, toDict, fail) {
    function wrong(object, name, result, needed) {
        return new TypeError(`${object.constructor.name}.vfunc_${name} () returned ${show(result)}; ${needed} is needed`);
    }

    // [whether it succeeded, value]
    function split(result) {
        return Array.isArray(result) && result.length === 2 && typeof result[0] === 'boolean' ? result : [true, result];
    }

    function toNumber(needed) {
        return (object, name, result) => {
            const [ok, value] = split(result);
            if (typeof value !== 'number')
                throw wrong(object, name, result, needed);
            return [ok, value];
        };
    }

    function toLoss(object, name, result) {
        const [ok, value] = split(result);
        if (ok && !(value instanceof Ortrain.Value))
            throw wrong(object, name, result, 'the loss (an Ortrain.Value of the graph), or [true, loss]');
        return [ok, value];
    }

    function toSuccess(object, name, result) {
        if (result !== undefined && typeof result !== 'boolean')
            throw wrong(object, name, result, 'true or nothing');
        return result !== false;
    }

    function toItem(object, name, result) {
        if (result === null || typeof result !== 'object' || Array.isArray(result))
            throw wrong(object, name, result, 'an object of tensors');
        return toDict(result);
    }

    function toLength(object, name, result) {
        if (!Number.isSafeInteger(result) || result < 0)
            throw wrong(object, name, result, 'the number of items');
        return result;
    }

    function toState(object, name, result) {
        if (result !== undefined && result !== null && !(result instanceof GLib.Variant))
            throw wrong(object, name, result, 'a GLib.Variant or null');
        return result ?? null;
    }

    function toNames(object, name, result) {
        if (result === undefined || result === null)
            return null;
        if (!Array.isArray(result) || result.some(item => typeof item !== 'string'))
            throw wrong(object, name, result, 'an array of strings');
        return result;
    }

    const asIs = (object, name, result) => result;
    const silent = {get_length: 0, save_state: null, load_state: false, observe: undefined, reset: undefined, get_state_names: null};
    const results = {
        LrSchedule: {evaluate: toNumber('the factor (a number), or [true, factor]'), save_state: toState, load_state: toSuccess, observe: asIs},
        Metric: {compute: toNumber('a number, or [true, number]'), update: toSuccess, reset: asIs},
        Loss: {build: toLoss},
        Optimizer: {update: toSuccess, get_state_names: toNames},
        Transform: {apply: toSuccess},
        Dataset: {get_item: toItem, get_batch: toItem, get_length: toLength, fill_batch: toSuccess, fill_epoch_batch: toSuccess},
    };
    for (const owner in results) {
        Ortrain[owner]._classInit = function (klass) {
            for (const name in results[owner]) {
                const key = `vfunc_${name}`, convert = results[owner][name];
                const original = Object.getOwnPropertyDescriptor(klass.prototype, key)?.value;
                if (typeof original !== 'function')
                    continue;
                klass.prototype[key] = function (...args) {
                    try {
                        return convert(this, name, original.apply(this, args));
                    } catch (error) {
                        if (!(name in silent) || !fail(error))
                            throw error;
                        return silent[name];
                    }
                };
            }
            return GObject.Object._classInit.call(klass, klass);
        };
    }
}
