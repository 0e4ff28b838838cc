"""Runs a snippet with call_tool(). Handed to the interpreter as its program; never shown to a model."""


def main():
    import errno
    import faulthandler
    import itertools
    import json
    import linecache
    import os
    import signal
    import sys
    import threading
    import traceback
    import types

    channel, longest = int(sys.argv[1]), int(sys.argv[2])
    owner = os.getpid()
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    sys.stderr.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    # When its time is over, or it crashes, it says where it was. What it forks is not asked.
    faulthandler.enable()
    faulthandler.register(signal.SIGTERM, chain=True)

    def not_asked():
        faulthandler.unregister(signal.SIGTERM)
        faulthandler.disable()

    os.register_at_fork(after_in_child=not_asked)
    os.set_inheritable(channel, False)
    answers = open(channel, "rb", closefd=False)
    turn = threading.Lock()
    # Whether an answer may still come that nobody waits for: the next call would take it for its own.
    astray = False
    # The thread whose call is under way.
    caller = None
    numbers = itertools.count(1)

    class ToolError(Exception):
        """A tool refused or failed; the text says why."""

    # As a traceback names it.
    ToolError.__qualname__ = "ToolError"

    def call_tool(name, /, **arguments):
        """Calls one of the worker's tools and returns its answer; for a new job that is its id."""
        nonlocal astray, caller
        if os.getpid() != owner:
            # Two processes on one socket would read each other's answers.
            raise ToolError("only the process that runs the snippet can call tools, none that it forked")
        number = next(numbers)
        question = json.dumps({"id": number, "tool": name, "arguments": arguments}).encode() + b"\n"
        if len(question) > longest:
            raise ToolError(f"the call has {len(question)} bytes, at most {longest} are taken; nothing was done")
        if caller == threading.get_ident():
            # A handler of a signal: the call that it interrupted goes on when it returns.
            raise ToolError("another call of this thread is under way; a signal's handler can't make one")
        with turn:
            if astray:
                raise ToolError("a call before was broken off while it waited for its answer; no other can be made")
            astray, caller = True, threading.get_ident()
            try:
                while question:
                    question = question[os.write(channel, question):]
                answer = answers.readline()
            except ConnectionError:
                answer = b""
            except OSError as error:
                # The code closed it. What a handler raises is its own affair.
                if error.errno != errno.EBADF:
                    raise
                answer = b""
            finally:
                caller = None
            if not answer.endswith(b"\n"):
                raise ToolError("the engine has hung up")
            answer = json.loads(answer)
            if answer["id"] != number:
                # Something else wrote to the socket.
                raise ToolError("the answer belongs to another call; no other can be made")
            astray = False
        if answer["error"]:
            raise ToolError(answer["value"])
        return answer["value"]

    def report(error):
        """A traceback without the frames of this file."""
        told = traceback.TracebackException(type(error), error, error.__traceback__)
        todo = [told]
        while todo:
            one = todo.pop()
            frames = [frame for frame in one.stack if frame.filename != "<string>"]
            one.stack = traceback.StackSummary.from_list(frames)
            todo.extend(other for other in (one.__cause__, one.__context__) if other)
        print("".join(told.format()), end="", file=sys.stderr)

    code = json.loads(answers.readline())["code"]
    name = "snippet.py"
    linecache.cache[name] = (len(code), None, code.splitlines(True), name)
    module = types.ModuleType("__main__")
    module.__dict__.update(call_tool=call_tool, ToolError=ToolError)
    sys.modules["__main__"] = module
    sys.argv = [name]
    sys.path.insert(0, os.getcwd())
    try:
        exec(compile(code, name, "exec"), module.__dict__)
    except SystemExit:
        raise
    except BaseException as error:
        report(error)
        sys.exit(1)


main()
