// SPDX-License-Identifier: LGPL-2.1-or-later
/* exported init, show, toInteger, toMember */
// What properties and methods take. GJS turns what it does not understand into 0, NaN or an empty string; here every value
// is converted, or a TypeError or RangeError says what is needed.
const {GIRepository, GObject} = imports.gi;

const INTEGERS = {
    gint8: [-128n, 127n], guint8: [0n, 255n], gint16: [-32768n, 32767n], guint16: [0n, 65535n],
    gint: [-(2n ** 31n), 2n ** 31n - 1n], guint: [0n, 2n ** 32n - 1n],
    gint64: [-(2n ** 63n), 2n ** 63n - 1n], guint64: [0n, 2n ** 64n - 1n],
};
INTEGERS.glong = INTEGERS.gint64;
INTEGERS.gulong = INTEGERS.guint64;

// A value as it may be typed.
function show(value) {
    if (typeof value === 'string')
        return JSON.stringify(value);
    if (typeof value === 'bigint')
        return `${value}n`;
    if (typeof value === 'function')
        return 'a function';
    if (Array.isArray(value))
        return value.length > 8 ? `an array of ${value.length}` : `[${value.map(show).join(', ')}]`;
    if (value !== null && typeof value === 'object')
        return value instanceof GObject.Object ? value.constructor.name.replace('_', '.') : `an object (${value.constructor?.name ?? 'Object'})`;
    return String(value);
}

function distance(a, b) {
    let row = Array.from({length: b.length + 1}, (_, i) => i);
    for (let i = 1; i <= a.length; i++) {
        const next = [i];
        for (let k = 1; k <= b.length; k++)
            next.push(Math.min(row[k] + 1, next[k - 1] + 1, row[k - 1] + (a[i - 1] === b[k - 1] ? 0 : 1)));
        row = next;
    }
    return row[b.length];
}

// "; did you mean …?", if one of the names is close; else, of those that are not shown already, which there are
function suggest(name, names, shown = true) {
    const plain = text => text.replace(/[-_]/g, '').toLowerCase();
    const [best] = names.map(other => [distance(plain(name), plain(other)), other]).sort(([a], [b]) => a - b);
    if (best !== undefined && best[0] <= Math.max(2, name.length / 3))
        return `; did you mean ${best[1]}?`;
    return shown || names.length === 0 ? '' : `; there are ${names.sort().join(', ')}`;
}

function toBoolean(where, value) {
    if (typeof value === 'boolean' || value === 0 || value === 1)
        return Boolean(value);
    throw new TypeError(`${where} needs true or false, not ${show(value)}`);
}

function toString(where, value) {
    if (typeof value === 'string')
        return value;
    throw new TypeError(`${where} needs a string, not ${show(value)}`);
}

// A number for GJS, or a BigInt that no number is exact for.
function toInteger(where, value, [least, most]) {
    const words = `${where} needs an integer, not ${show(value)}`;
    if (typeof value !== 'number' && typeof value !== 'bigint')
        throw new TypeError(words);
    if (typeof value === 'number' && !Number.isInteger(value))
        throw new (Number.isFinite(value) ? TypeError : RangeError)(words);
    const integer = BigInt(value);
    if (integer < least || integer > most)
        throw new RangeError(`${where} needs an integer from ${least} to ${most}, not ${show(value)}`);
    return BigInt(Number(integer)) === integer ? Number(integer) : integer;
}

function toDouble(where, value) {
    if (typeof value === 'number')
        return value;
    if (typeof value === 'bigint')
        return Number(value);
    throw new TypeError(`${where} needs a number, not ${show(value)}`);
}

function nickOf(key) {
    return key.toLowerCase().replace(/_/g, '-');
}

// A member of an enumeration, by its number or its nick.
function toMember(where, value, enumeration) {
    const keys = Object.keys(enumeration).filter(key => typeof enumeration[key] === 'number');
    const nicks = keys.map(nickOf);
    const words = `${where} is one of ${nicks.join(', ')}, not ${show(value)}`;
    if (typeof value === 'string') {
        const i = nicks.indexOf(value);
        if (i < 0)
            throw new RangeError(words + suggest(value, nicks));
        return enumeration[keys[i]];
    }
    if (typeof value !== 'number')
        throw new TypeError(words);
    if (!keys.some(key => enumeration[key] === value))
        throw new RangeError(words);
    return value;
}

function isIterable(value) {
    return value !== null && typeof value === 'object' && typeof value[Symbol.iterator] === 'function';
}

function toArray(where, value, convert) {
    if (!isIterable(value))
        throw new TypeError(`${where} needs an array, not ${show(value)}`);
    return Array.from(value, (item, i) => convert(`${where}[${i}]`, item));
}

// converters: {name of a type of the library: function (value), which leaves alone what it cannot convert}
function init(Ortrain, converters) {
    function enumerationOf(name) {
        const found = Ortrain[name.replace(/^Ortrain/, '')];
        return found !== null && typeof found === 'object' && '$gtype' in found ? found : null;
    }

    function toObject(where, type, value) {
        for (const name in converters) {
            if (GObject.type_is_a(type, Ortrain[name].$gtype))
                return converters[name](value);
        }
        return value;
    }

    // ---- properties ----

    function validate(where, pspec, value) {
        const kind = pspec.value_type.name;
        const held = new GObject.Value();
        held.init(pspec.value_type);
        const [set, get] = {
            gdouble: ['set_double', 'get_double'], gfloat: ['set_float', 'get_float'], gint: ['set_int', 'get_int'], guint: ['set_uint', 'get_uint'],
            gint64: ['set_int64', 'get_int64'], guint64: ['set_uint64', 'get_uint64'],
        }[kind] ?? [];
        if (set === undefined)
            return value;
        held[set](Number(value));
        if (Number.isNaN(value) || GObject.param_value_validate(pspec, held)) {
            const nearest = Number.isNaN(value) ? '' : `; the nearest that it takes is ${Number(held[get]().toPrecision(6))}`;
            throw new RangeError(`${where} cannot be ${show(value)}${nearest}`);
        }
        return value;
    }

    function toProperty(owner, pspec, value) {
        const where = `${owner}.${pspec.name.replace(/-/g, '_')}`, type = pspec.value_type, kind = type.name;
        if (kind in INTEGERS)
            return validate(where, pspec, toInteger(where, value, INTEGERS[kind]));
        if (kind === 'gdouble' || kind === 'gfloat')
            return validate(where, pspec, toDouble(where, value));
        if (kind === 'gboolean')
            return toBoolean(where, value);
        if (kind === 'gchararray')
            return value === null || value === undefined ? null : toString(where, value);
        if (kind === 'GStrv')
            return value === null || value === undefined ? [] : toArray(where, value, toString);
        if (enumerationOf(kind) !== null && GObject.type_is_a(type, GObject.TYPE_ENUM))
            return toMember(where, value, enumerationOf(kind));
        if (!GObject.type_is_a(type, GObject.TYPE_OBJECT))
            return value;
        const object = toObject(where, type, value) ?? null;
        if (object !== null && !(object instanceof GObject.Object && GObject.type_is_a(object.constructor.$gtype, type)))
            throw new TypeError(`${where} needs an ${kind.replace('Ortrain', 'Ortrain.')}, not ${show(value)}`);
        return object;
    }

    function nameOf(object) {
        return object.constructor.name.replace(/^(Ortrain|Gjs)_/, '');
    }

    const ways = name => [name.replace(/-/g, '_'), name, name.replace(/-(.)/g, (_, letter) => letter.toUpperCase())];

    function checkSetters(cls) {
        for (const pspec of GObject.Object.list_properties.call(cls)) {
            if (pspec.owner_type.name !== cls.$gtype.name || !(pspec.flags & GObject.ParamFlags.WRITABLE) || pspec.flags & GObject.ParamFlags.CONSTRUCT_ONLY)
                continue;
            for (const name of new Set(ways(pspec.name))) {
                // what GJS finds for the name, which it defines when it is first asked
                const found = name in cls.prototype ? Object.getOwnPropertyDescriptor(cls.prototype, name) : undefined;
                if (found?.set === undefined)
                    continue;
                Object.defineProperty(cls.prototype, name, {
                    ...found, configurable: true,
                    set(value) {
                        found.set.call(this, toProperty(nameOf(this), pspec, value));
                    },
                });
            }
        }
    }

    // set_property () as the setters do it, as GLib only warns of what it does not take.
    function checkSetProperty(cls) {
        const original = cls.prototype.set_property;
        cls.prototype.set_property = function (name, value) {
            const [checked] = Object.values(toProperties(this.constructor, {[name]: value}));
            original.call(this, name, checked);
        };
    }

    // {name of a property: value}, checked. more: names that are none, which a constructor takes as well
    function toProperties(cls, given, more = []) {
        if (given === null || typeof given !== 'object' || Array.isArray(given) || given instanceof GObject.Object)
            throw new TypeError(`new Ortrain.${cls.name.replace(/^Ortrain_/, '')} () takes an object of properties, not ${show(given)}`);
        const pspecs = GObject.Object.list_properties.call(cls), properties = {};
        for (const name in given) {
            const pspec = pspecs.find(pspec => ways(pspec.name).includes(name));
            const owner = cls.name.replace(/^(Ortrain|Gjs)_/, '');
            if (pspec === undefined) {
                const names = pspecs.filter(pspec => pspec.flags & GObject.ParamFlags.WRITABLE).map(pspec => pspec.name.replace(/-/g, '_')).concat(more);
                throw new TypeError(`Ortrain.${owner} has no property ${name}${suggest(name, names, false)}`);
            }
            if (!(pspec.flags & GObject.ParamFlags.WRITABLE))
                throw new TypeError(`Ortrain.${owner}: ${name} is read-only`);
            properties[name] = pspec.owner_type.name.startsWith('Ortrain') ? toProperty(owner, pspec, given[name]) : given[name];
        }
        return properties;
    }

    function checkConstructor(cls) {
        const original = cls.prototype._init;
        if (Object.prototype.hasOwnProperty.call(cls.prototype, '_init'))
            return;
        cls.prototype._init = function (given, ...rest) {
            return original.call(this, given === undefined ? {} : toProperties(this.constructor, given), ...rest);
        };
    }

    // ---- arguments ----

    const G = GIRepository, Tag = G.TypeTag;
    const TAGS = {
        [Tag.INT8]: 'gint8', [Tag.UINT8]: 'guint8', [Tag.INT16]: 'gint16', [Tag.UINT16]: 'guint16', [Tag.INT32]: 'gint', [Tag.UINT32]: 'guint',
        [Tag.INT64]: 'gint64', [Tag.UINT64]: 'guint64',
    };

    // A function (where, value); null where GJS does it right.
    function converterOf(type, nullable) {
        const tag = G.type_info_get_tag(type);
        let convert = null;
        if (tag in TAGS)
            convert = (where, value) => toInteger(where, value, INTEGERS[TAGS[tag]]);
        else if (tag === Tag.DOUBLE || tag === Tag.FLOAT)
            convert = toDouble;
        else if (tag === Tag.BOOLEAN)
            convert = toBoolean;
        else if (tag === Tag.UTF8 || tag === Tag.FILENAME)
            convert = toString;
        else if (tag === Tag.INTERFACE) {
            const of = G.type_info_get_interface(type);
            const enumeration = of.get_type() === G.InfoType.ENUM ? enumerationOf(of.get_name()) : null;
            const cls = of.get_namespace() === 'Ortrain' && of.get_name() in converters ? of.get_name() : null;
            const needed = of.get_namespace() === 'Ortrain' && of.get_type() === G.InfoType.OBJECT ? Ortrain[of.get_name()] : null;
            if (enumeration !== null)
                convert = (where, value) => toMember(where, value, enumeration);
            else if (needed !== null) {
                convert = (where, value) => {
                    const object = cls !== null ? converters[cls](value) : value;
                    if (!(object instanceof needed))
                        throw new TypeError(`${where} needs an Ortrain.${of.get_name()}, not ${show(value)}`);
                    return object;
                };
            }
        } else if (tag === Tag.ARRAY) {
            const item = G.type_info_get_param_type(type, 0), itemTag = G.type_info_get_tag(item);
            const element = converterOf(item, false);
            if (itemTag === Tag.UINT8)
                convert = (where, value) => value instanceof Uint8Array ? value : Uint8Array.from(toArray(where, value, element));
            else if (element !== null)
                convert = (where, value) => toArray(where, value, element);
        }
        if (convert === null || !nullable)
            return convert;
        return (where, value) => value === null || value === undefined ? null : convert(where, value);
    }

    // What GJS takes: [{name, convert, nullable}]
    function argumentsOf(info) {
        const all = [], hidden = new Set();
        for (let i = 0; i < G.callable_info_get_n_args(info); i++) {
            const arg = G.callable_info_get_arg(info, i), type = G.arg_info_get_type(arg);
            all.push([arg, type]);
            if (G.type_info_get_tag(type) === Tag.ARRAY)
                hidden.add(G.type_info_get_array_length(type));
            if (G.arg_info_get_closure(arg) >= 0 && G.type_info_get_tag(type) === Tag.INTERFACE) {
                hidden.add(G.arg_info_get_closure(arg));
                hidden.add(G.arg_info_get_destroy(arg));
            }
        }
        return all.filter(([arg], i) => !hidden.has(i) && G.arg_info_get_direction(arg) !== G.Direction.OUT).map(([arg, type]) => {
            const nullable = G.arg_info_may_be_null(arg);
            return {name: arg.get_name(), nullable, convert: converterOf(type, nullable)};
        });
    }

    function checkFunction(owner, name, info, label) {
        const original = owner[name];
        const taken = argumentsOf(info);
        if (label.startsWith('IoBinding.bind_')) {
            taken[1].convert = (where, value) => {      // memory that runs read and write, not a copy
                if (value !== null && !(value instanceof Ortrain.Tensor))
                    throw new TypeError(`${where} needs an Ortrain.Tensor, whose memory is bound, not ${show(value)}`);
                return value;
            };
        }
        if (typeof original !== 'function' || taken.length === 0)
            return;
        function call(...args) {
            // a callback is the last argument; omitted nullable arguments are null
            const last = typeof args[args.length - 1] === 'function' && args.length < taken.length ? args.pop() : undefined;
            while (args.length < taken.length - (last === undefined ? 0 : 1) && taken[args.length].nullable && !(last === undefined && name.endsWith('_async')))
                args.push(null);
            if (last !== undefined)
                args.push(last);
            for (let i = 0; i < taken.length; i++) {
                if (args[i] === undefined && !taken[i].nullable)
                    throw new TypeError(`${label} (): ${taken[i].name} is missing`);
                if (taken[i].convert !== null)
                    args[i] = taken[i].convert(`${label} (): ${taken[i].name}`, args[i]);
            }
            return original.apply(this, args);
        }
        Object.defineProperty(call, 'length', {value: original.length, configurable: true});
        Object.defineProperty(call, 'name', {value: name, configurable: true});
        owner[name] = call;
    }

    function checkMethods(info, cls) {
        const [count, get] = info.get_type() === G.InfoType.OBJECT ? [G.object_info_get_n_methods, G.object_info_get_method]
            : [G.struct_info_get_n_methods, G.struct_info_get_method];
        for (let i = 0; i < count(info); i++) {
            const method = get(info, i), name = method.get_name();
            const isMethod = G.function_info_get_flags(method) & G.FunctionInfoFlags.IS_METHOD;
            checkFunction(isMethod ? cls.prototype : cls, name, method, `${info.get_name()}.${name}`);
        }
    }

    const repository = G.Repository.get_default();
    for (let i = 0; i < repository.get_n_infos('Ortrain'); i++) {
        const info = repository.get_info('Ortrain', i), name = info.get_name();
        if (info.get_type() === G.InfoType.FUNCTION)
            checkFunction(Ortrain, name, info, name);
        else if (info.get_type() === G.InfoType.OBJECT)
            checkMethods(info, Ortrain[name]);
    }
    return {
        checkClasses() {
            for (const name of Object.keys(Ortrain)) {
                const cls = Ortrain[name];
                if (typeof cls !== 'function' || !(cls.prototype instanceof GObject.Object))
                    continue;
                checkSetters(cls);
                checkConstructor(cls);
                if (Object.getPrototypeOf(cls) === GObject.Object)
                    checkSetProperty(cls);
            }
        },
        toProperties, toProperty,
    };
}
