# SPDX-License-Identifier: Apache-2.0
"""What a program can see of its own functions, printed: the same lines whether somebody follows
them or not. usage: behave.py GO-FILE; goes on once the file exists."""
import _ctypes  # noqa: F401: an extension module, so that the package is noticed while ...
import asyncio
import copy
import cProfile
import gc
import importlib.util
import inspect
import io
import multiprocessing
import os
import pickle
import pstats
import sys
import threading
import time
import traceback
import types
import weakref

import spanned.engine as engine
import spanned.strange as strange
import _json  # noqa: F401: ... or after it is imported
import _testcapi  # noqa: F401



def postpone(name):
    spec = importlib.util.find_spec(name)
    spec.loader = importlib.util.LazyLoader(spec.loader)
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


postponed = postpone("spanned.postponed")
saved = engine.forward, engine.Engine.step  # names from before


def go_on(path):
    while not os.path.exists(path):
        engine.idle()
        time.sleep(0.01)


def show(*what):
    print(*what, flush=True)


def see_calls():
    e = engine.Engine()
    show("calls", e.step(engine.Batch([1, 2, 3], 64), repeat=2), e.static(1), engine.Engine.klass(2)[1],
         engine.decorated(4), engine.not_catalogued(4), engine.recursive(3), engine.maker()(5))
    show("keywords", engine.forward(request=None, tokens=2), engine.forward(*[3], **{"context": 1}))
    try:
        engine.forward()
    except TypeError as error:
        show("wrong call", error)
    thing, own = engine.Hostile(), engine.OwnDict(a=1)
    engine.hostile(thing)
    engine.hostile(weakref.proxy(thing))
    engine.hostile(types.MappingProxyType(own))
    engine.forward(1, request="x" * 1000000)
    for counts in ({"a": 300, "b": 1}, {"a": 1, "b": 1, "c": [7]}, {"a": 20, "b": [1, 2], "c": ()}):
        engine.planned(counts, (5, 6, [1, 2]))
    engine.planned({str(i): 2 for i in range(1500)})
    engine.planned({3: 1, "x": -1, "y": 10 ** 400, "z": engine.Hostile(), "\udcff": 1, "good": 7}, hidden=engine.Hostile())
    engine.planned(engine.OwnDict(a=1), hidden=[engine.Hostile()])
    engine.planned(["listed-00c0ffee", "names", 5], None)
    show("answered", len(engine.answered(["r0-0123aBcd", "r1-0123abcg", "r2", "-00000000"])), len(engine.answered([])))
    show("strange", strange.strange())
    show("looked at", engine.calls_of_hostile)
    show("depth", engine.recursive(60), engine.deep(60))


def see_errors():
    try:
        engine.failing(2)
    except LookupError:
        text = traceback.format_exc()
        show(text)
        names, tb = [], sys.exc_info()[2]
        while tb:
            names.append((tb.tb_frame.f_code.co_name, tb.tb_lineno))
            tb = tb.tb_next
        show("traceback", names)
    try:
        sys.setrecursionlimit(300)
        engine.recursive(100000)
    except RecursionError as error:
        show("too deep", type(error).__name__)
    finally:
        sys.setrecursionlimit(1000)


def see_objects():
    f, m = engine.forward, engine.Engine.step
    show("same", f is saved[0], m is saved[1], engine.Engine.__dict__["step"] is m)
    for o in (f, m, engine.decorated, engine.Engine.klass, engine.coroutine):
        show(o.__name__, o.__qualname__, o.__module__, inspect.signature(o), inspect.isfunction(o), o.__doc__,
             isinstance(o, types.FunctionType), o.__class__.__name__, inspect.getsource(o).splitlines()[0].strip())
    show("code", f.__code__.co_code.hex(), f.__defaults__, f.__kwdefaults__, f.__globals__ is vars(engine))
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        show("pickled", pickle.loads(pickle.dumps(f, protocol)) is f, pickle.loads(pickle.dumps(m, protocol)) is m,
             pickle._loads(pickle._dumps(f, protocol)) is f, pickle.dumps(f, protocol) == pickle.dumps(saved[0], protocol))
    bound = pickle.loads(pickle.dumps(engine.Engine().schedule))
    show("bound", bound.__name__, copy.copy(f) is f, copy.deepcopy(m) is m, weakref.ref(f)() is f)
    f.note = 1
    show("dict", vars(f), repr(f).split(" at ")[0], hash(f) == hash(saved[0]), f == saved[0])
    del f.note
    show("async", inspect.iscoroutinefunction(engine.coroutine), inspect.isgeneratorfunction(engine.generator))
    show("builtins", sorted(x for x in dir(f)))


def see_tools():
    lines = []

    def trace(frame, event, arg):
        if frame.f_globals.get("__name__") == "spanned.engine":
            lines.append((event, frame.f_code.co_name, frame.f_lineno - frame.f_code.co_firstlineno))
        return trace
    sys.settrace(trace)
    engine.Engine().step(engine.Batch([], 1))
    list(engine.generator(1))
    sys.settrace(None)
    show("trace", lines)
    calls = []

    def profile(frame, event, arg):
        calls.append((event, frame.f_code.co_name, getattr(arg, "__name__", None) if "c_" in event else None))
    sys.setprofile(profile)
    engine.Engine().step(engine.Batch([], 1))
    gc.collect()
    sys.setprofile(None)
    show("profile", calls)
    p = cProfile.Profile()
    p.runcall(engine.Engine().step, engine.Batch([], 1), 3)
    text = io.StringIO()
    stats = pstats.Stats(p, stream=text).stats
    show("cProfile", sorted((key[1:], value[:2]) for key, value in stats.items()))
    show("stack", [x.name for x in traceback.extract_stack()])


def see_generators():
    g = engine.generator(5)
    show("generator", next(g), g.send(None), g.gi_frame.f_lineno > 0)
    try:
        g.throw(KeyError("thrown"))
    except KeyError as error:
        show("thrown", error, g.gi_frame)
    g = engine.generator(3)
    next(g)
    g.close()
    show("closed", list(g), sum(engine.generator(4)))

    async def both():
        a = asyncio.ensure_future(engine.coroutine(3, "a"))
        b = asyncio.ensure_future(engine.coroutine(1000, "b"))
        done = await a
        b.cancel()
        try:
            await b
        except asyncio.CancelledError:
            return done, b.cancelled()
    show("asyncio", asyncio.run(both()))


def in_thread(results, i):
    results[i] = engine.Engine().step(engine.Batch([], i)), engine.recursive(i)


def see_threads():
    results = {}
    threads = [threading.Thread(target=in_thread, args=(results, i)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    show("threads", sorted(results.items()), threading.active_count(), [t.name for t in threading.enumerate()])


def see_processes():
    for how in ("fork", "spawn"):
        with multiprocessing.get_context(how).Pool(2) as pool:
            show(how, pool.map(engine.recursive, range(4)), pool.map(engine.Engine.klass, [1])[0][1])
            pool.map(time.sleep, (1, 1), 1)  # long enough to be followed


def see_collector():
    heard = []
    show("callbacks", gc.callbacks)
    gc.callbacks.append(lambda phase, info: heard.append((phase, info["generation"], sorted(info))))

    def fails(phase, info):
        raise ValueError("from a callback")
    gc.callbacks.append(fails)
    unraisable, sys.unraisablehook = [], None
    sys.unraisablehook = lambda u: unraisable.append((type(u.exc_value).__name__, str(u.exc_value)))
    gc.disable()
    gc.collect()
    gc.callbacks.remove(fails)
    gc.collect(1)
    gc.callbacks.clear()
    gc.collect()
    gc.enable()
    sys.unraisablehook = sys.__unraisablehook__
    show("collector", heard, unraisable, gc.callbacks)


def see_interpreters():
    _testcapi.run_in_subinterp("import sys, gc\nsys.path[:0] = %r\nimport spanned.engine as e\nimport _json, array\n"
                               "print('inside', e.recursive(3), list(e.generator(2)), gc.collect() >= 0, gc.callbacks,"
                               " flush=True)" % sys.path)
    show("outside", engine.recursive(3))


def main():
    go_on(sys.argv[1])
    for see in (see_calls, see_errors, see_objects, see_tools, see_generators, see_threads, see_processes,
                see_collector, see_interpreters):
        try:
            see()
        except Exception:  # the same one with and without
            traceback.print_exc(file=sys.stdout)
    import spanned.late
    for _ in range(60):
        spanned.late.late()
        postponed.postponed()
        time.sleep(0.01)
    show("end")


if __name__ == "__main__":
    main()
    threading.Thread(target=lambda: [engine.recursive(9) for _ in iter(int, 1)], daemon=True).start()
